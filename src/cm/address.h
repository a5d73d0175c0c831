// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "wire/headers/ids.h"
#include "wire/headers/local_route.h"

namespace verbatim::cm {

/// The two ends of a path through the network, "local" being this one. CM messages are sent between
/// the queue pairs 1 of both ends.
///
/// In a subnet of InfiniBand it has a local route, by which messages travel. They have no GIDs
/// there, so addresses are equal if the LID of the remote end is.
struct Address {
  wire::Gid local{};
  wire::Gid remote{};
  wire::LocalRoute route{};  // from the local end to the remote one; none on RoCE
  friend bool operator==(const Address& a, const Address& b) noexcept {
    if (a.route.exists() || b.route.exists()) {
      return a.route.destination == b.route.destination;
    }
    return a.local == b.local && a.remote == b.remote;
  }
};

/// The parameters of the packets of a connection between the ends of an Address.
struct Travel {
  std::uint32_t flow_label = 0;  // 20 bits
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t service_level = 0;  // 4 bits
  std::uint8_t packet_rate = 0;    // 6 bits; 0 is the rate of the port
  wire::PKey pkey = wire::PKey::kDefault;
  friend bool operator==(const Travel&, const Travel&) noexcept = default;
};

}  // namespace verbatim::cm
