// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"

namespace verbatim::device {

/// What the port of an adapter in a fabric has that a network interface has not. A subnet manager
/// writes most of it. A plain value.
struct FabricPort {
  std::string node;               // as the user has named it
  std::uint32_t node_number = 0;  // in the fabric
  std::uint32_t number = 1;       // of the port, at its node
  std::uint64_t system_guid = 0;  // of the node: SystemImageGUID
  std::uint32_t address = 0;      // IPv4 of the node, in host byte order; 0: none
  wire::Lid lid{};
  std::uint8_t lmc = 0;  // the port has 2^lmc LIDs
  wire::Lid sm_lid{};
  wire::ServiceLevel sm_level{};
  // As the subnet manager encodes them, which is also how the verbs do.
  std::uint8_t state = 0;
  std::uint8_t physical_state = 0;
  std::uint8_t width = 0;
  std::uint16_t speed = 0;  // of a lane
  std::uint32_t capabilities = 0;
  std::uint16_t capabilities_2 = 0;
  std::uint8_t lane_limit = 0;
  std::uint8_t subnet_timeout = 0;
  std::uint8_t init_reply = 0;
  std::uint16_t pkey_violations = 0;
  std::uint16_t qkey_violations = 0;
  std::uint16_t reregister_requests = 0;  // so far, by the subnet manager
  std::uint16_t outages = 0;              // so far: the port was up and then was not
  wire::PathMtu mtu_limit = wire::PathMtu::k4096;
  std::vector<wire::PKey> pkeys{};

  friend bool operator==(const FabricPort&, const FabricPort&) = default;
};

}  // namespace verbatim::device
