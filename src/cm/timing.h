// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace verbatim::cm {

/// A time in the five-bit code of the specification: 4.096 us << code. Code 31 is 2.4 hours.
enum class TimeCode : std::uint8_t {};

[[nodiscard]] constexpr Duration duration_of(TimeCode code) noexcept {
  return Duration(std::int64_t{4096} << (static_cast<unsigned>(code) & 31U));
}

/// The values of Linux's rdma_cm, and the defaults here.
inline constexpr TimeCode kResponseTimeout{20};  // 4.3 s for the peer to answer
inline constexpr TimeCode kPacketLifeTime{16};   // 0.27 s for a packet to arrive
inline constexpr TimeCode kAckDelay{15};         // the adapter's part of an acknowledgement's time
inline constexpr TimeCode kMraServiceTimeout{24};  // 69 s for a user that has not answered yet
inline constexpr std::uint8_t kCmRetriesMax = 15;  // four bits

/// How long the answer to a message may take: the way there, the response time, and the way back
/// (IBA Vol 1, 12.9.8.1).
[[nodiscard]] constexpr Duration answer_time(TimeCode response, TimeCode life_time) noexcept {
  return 2 * duration_of(life_time) + duration_of(response);
}

/// The local ACK timeout that a request announces (12.7.34): the way there and back and the peer's
/// delay, rounded up to a code.
[[nodiscard]] constexpr TimeCode ack_timeout_of(TimeCode ack_delay, TimeCode life_time) noexcept {
  const auto delay = static_cast<std::uint8_t>(ack_delay);
  const auto both_ways = static_cast<std::uint8_t>(static_cast<unsigned>(life_time) + 1);
  const std::uint8_t larger = std::max(delay, both_ways);
  const std::uint8_t smaller = std::min(delay, both_ways);
  const unsigned code = larger + (smaller + 1 >= larger ? 1U : 0U);
  return TimeCode{static_cast<std::uint8_t>(std::min(code, 31U))};
}

}  // namespace verbatim::cm
