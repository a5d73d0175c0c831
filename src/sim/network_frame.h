// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "wire/headers/ids.h"

namespace verbatim::sim {

/// One datagram on the simulated network: the addresses that the ICRC covers, and BTH to ICRC.
struct NetworkFrame {
  wire::Gid source{};
  wire::Gid destination{};
  std::uint16_t source_port = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;
  std::vector<std::byte> octets{};
  bool is_damaged = false;  // the network has changed bits of it
};

}  // namespace verbatim::sim
