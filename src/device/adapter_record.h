// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "device/config.h"
#include "wire/headers/wire_error.h"

namespace verbatim::device {

/// Why packets never reached a queue pair.
struct AdapterCounters {
  std::array<std::uint64_t, wire::kWireErrorCount> malformed{};
  std::uint64_t unknown_qp = 0;
  std::uint64_t unexpected = 0;  // requests for a half whose requests are executed directly
  std::uint64_t forwarded = 0;   // arrived here, belong to another process of this host
  std::uint64_t memory_faults = 0;
};

/// What an adapter shows of itself in its segment. Plain data, written by the owner with its lock
/// held; nobody acts upon it. Who looks at it from outside (`verbatim stat`) may see the middle of
/// a change.
struct alignas(64) AdapterRecord {
  std::array<char, 64> device{};      // its name, with zeroes behind it
  std::array<char, 16> interface {};  // likewise
  std::int64_t opened_at = 0;         // nanoseconds of the host's steady clock
  DataPathPolicy path{};
  DataPathCause path_cause{};
  std::uint32_t completion_queues = 0;  // that exist now
  AdapterCounters counters{};
};
static_assert(std::is_trivially_copyable_v<AdapterRecord>);

}  // namespace verbatim::device
