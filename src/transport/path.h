// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "wire/crc/icrc.h"
#include "wire/headers/ids.h"
#include "wire/headers/local_route.h"

namespace verbatim::transport {

/// The destination and the addresses of a packet: an address vector that the adapter has resolved.
/// The transport needs only the part that the ICRC covers; the link reads the rest.
///
/// On RoCE both GIDs are IP addresses. A native packet has a local route, and a global route header
/// only if the GIDs are not zero.
struct Path {
  wire::Gid source{};
  wire::Gid destination{};
  wire::LocalRoute local{};
  std::uint16_t source_port = 0xc000;  // UDP; one per queue pair, so that packets stay in order
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;
  wire::PKey pkey = wire::PKey::kDefault;
  wire::IcrcSeed seed = wire::IcrcSeed::roce_v2({}, {}, 0xc000);

  /// To be called after each change of the addresses or of the port.
  void refresh_seed() noexcept {
    seed = wire::IcrcSeed::of(local, source, destination, source_port);
  }
};

}  // namespace verbatim::transport
