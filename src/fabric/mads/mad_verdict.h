// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim::fabric {

/// What a MadPort did with a datagram that arrived.
enum class MadVerdict : std::uint8_t {
  kDelivered,  // to a program, alone or as the end of a message
  kSegment,    // it is a part of a message, or an acknowledgement of one
  kUnclaimed,  // no agent wants it
  kUnmatched,  // an answer to no outstanding request
  kMalformed,  // not a management datagram
  kBadPKey,    // the port is not in its partition
  kNoRoom,     // the programs take their datagrams too slowly
};
inline constexpr std::size_t kMadVerdictCount = 7;

/// What a MadPort has counted since it was made.
struct MadCounters {
  std::array<std::uint64_t, kMadVerdictCount> received{};  // by verdict
  std::uint64_t sent = 0;                                  // packets, with repetitions
  std::uint64_t repeated = 0;    // requests and runs of segments that were sent again
  std::uint64_t unanswered = 0;  // requests and messages that were given up
};

}  // namespace verbatim::fabric
