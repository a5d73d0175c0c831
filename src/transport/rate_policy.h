// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace verbatim::transport {

/// When a queue pair may send its next packet: the place for congestion control (annex A17.9).
/// Today it never holds a packet back; it counts the congestion notifications that arrive, which is
/// what a rate controller will be driven by.
///
/// Pure: the requester asks may_send(), reports handle_sent(), and sleeps no longer than
/// next_opportunity().
class RatePolicy {
 public:
  [[nodiscard]] bool may_send(Instant now) const noexcept { return now >= not_before_; }
  void handle_sent(Instant, std::size_t) noexcept {}
  void handle_congestion_notification(Instant) noexcept { ++notifications_; }
  [[nodiscard]] Instant next_opportunity() const noexcept { return not_before_; }
  [[nodiscard]] std::uint64_t notification_count() const noexcept { return notifications_; }

 private:
  Instant not_before_{};
  std::uint64_t notifications_ = 0;  // CNPs that arrived
};

}  // namespace verbatim::transport
