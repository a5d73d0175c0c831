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
  LinkRate rate{};  // in use, or the fastest that both ends enable while the link is down
  wire::PathMtu mtu_limit = wire::PathMtu::k4096;
  wire::PathMtu mtu = wire::PathMtu::k4096;  // of the link, as the subnet manager has set it
  std::uint8_t subnet_timeout = 0;           // 4.096 us * 2^this
  std::vector<wire::PKey> pkeys{};           // the whole table; 0 is an empty entry
  std::vector<wire::Gid> gids{};             // all zero but the prefix: an empty entry
  wire::Guid port_guid{};
  std::uint32_t reregister_requests = 0;  // how often the subnet manager has set ClientReregister
  friend bool operator==(const PortStatus&, const PortStatus&) noexcept = default;
};

}  // namespace verbatim::fabric
