// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "wire/headers/ids.h"

namespace verbatim::cm {

/// The two ends of a path through the network, "local" being this one. CM messages are sent between
/// the queue pairs 1 of both ends.
struct Address {
  wire::Gid local{};
  wire::Gid remote{};
  friend bool operator==(const Address&, const Address&) noexcept = default;
};

/// The parameters of the packets of a connection between the ends of an Address.
struct Travel {
  std::uint32_t flow_label = 0;  // 20 bits
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t service_level = 0;  // 4 bits
  wire::PKey pkey = wire::PKey::kDefault;
  friend bool operator==(const Travel&, const Travel&) noexcept = default;
};

}  // namespace verbatim::cm
