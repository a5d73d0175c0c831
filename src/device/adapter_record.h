// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "device/config.h"
#include "loop/packet_counters.h"

namespace verbatim::device {

/// The state of an adapter in its segment, for viewers. Plain data, written by the owner with its
/// lock held. No process acts upon it. A viewer (`verbatim stat`) may see the middle of a change.
struct alignas(64) AdapterRecord {
  std::array<char, 64> device{};      // its name, with zeroes behind it
  std::array<char, 16> interface {};  // likewise
  std::int64_t opened_at = 0;         // nanoseconds of the host's steady clock
  DataPathPolicy path{};
  DataPathCause path_cause{};
  std::uint32_t completion_queues = 0;  // that exist now
  loop::PacketCounters counters{};
};
static_assert(std::is_trivially_copyable_v<AdapterRecord>);

}  // namespace verbatim::device
