// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "wire/headers/wire_error.h"

namespace verbatim::loop {

/// The packets that never reached a queue pair of the adapter, by cause, and the work on packets
/// that a memory fault ended. Plain data: an adapter keeps it in its segment, for viewers.
struct PacketCounters {
  std::array<std::uint64_t, wire::kWireErrorCount> malformed{};
  std::uint64_t unknown_qp = 0;
  std::uint64_t unexpected = 0;  // requests for a half whose requests are executed directly
  std::uint64_t forwarded = 0;   // arrived here, belong to another process of this host
  std::uint64_t memory_faults = 0;
};

}  // namespace verbatim::loop
