// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "fabric/topology/link_rate.h"
#include "wire/headers/guid.h"
#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"
#include "wire/management/port_state.h"

namespace verbatim::fabric {

/// What programs and tools may know of a port: the values that an operating system shows of its own
/// ports. A copy; it does not follow the port.
struct PortStatus {
  wire::PortState state = wire::PortState::kDown;
  wire::PortPhysicalState physical_state = wire::PortPhysicalState::kPolling;
  wire::Lid lid{};
  std::uint8_t lmc = 0;
  wire::Lid sm_lid{};
  wire::ServiceLevel sm_level{};
  std::uint32_t capability_mask = 0;
  std::uint16_t capability_mask_2 = 0;
  LinkRate rate{};  // in use, or the fastest that both ends enable while the link is down
  wire::PathMtu mtu_limit = wire::PathMtu::k4096;
  wire::PathMtu mtu = wire::PathMtu::k4096;  // of the link, as the subnet manager has set it
  std::uint8_t subnet_timeout = 0;           // 4.096 us * 2^this
  std::uint8_t init_reply = 0;               // InitTypeReply
  std::uint8_t lane_limit = 0;               // VLCap, as PortInfo encodes it
  std::uint16_t pkey_violations = 0;
  std::uint16_t qkey_violations = 0;
  std::vector<wire::PKey> pkeys{};  // the whole table; 0 is an empty entry
  std::vector<wire::Gid> gids{};    // all zero but the prefix: an empty entry
  wire::Guid port_guid{};
  std::uint32_t reregister_requests = 0;  // how often the subnet manager has set ClientReregister
  std::uint32_t outages = 0;              // how often the port was Active and then was not
  friend bool operator==(const PortStatus&, const PortStatus&) noexcept = default;
};

}  // namespace verbatim::fabric
