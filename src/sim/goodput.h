// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sim/lossy_network.h"
#include "transport/queues/work.h"
#include "wire/headers/ids.h"

namespace verbatim::sim {

/// Measures how much one connection carries over a bad network: equal messages, always some of them
/// posted, with the windows of the adapter. The result follows from the options.
struct GoodputOptions {
  transport::SendOpcode opcode = transport::SendOpcode::kSend;  // or kWrite, kRead
  std::uint32_t message_octets = 64 * 1024;
  std::uint32_t message_count = 500;
  wire::PathMtu mtu = wire::PathMtu::k1024;
  Faults faults{};
  std::uint64_t seed = 1;
};

struct GoodputResult {
  bool is_intact = false;  // everything arrived unchanged
  double octets_per_second = 0;
  double frames_per_packet = 0;  // data frames on the wire for each one that was needed
};

[[nodiscard]] GoodputResult measure_goodput(const GoodputOptions& options);

}  // namespace verbatim::sim
