// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace verbatim::transport {

/// Decides when a queue pair may send its next packet. Reliable services need no limit, because
/// losses narrow their window. Unreliable services detect no losses, so the octets per period are
/// limited: the socket buffer of a receiver holds what arrives while its process has no processor
/// for a moment. Congestion control belongs here, too (annex A17.9); today the notifications are
/// only counted.
///
/// Pure: the sender asks may_send(), reports handle_sent(), and sleeps no longer than
/// next_opportunity().
class RatePolicy {
 public:
  /// Zero octets: no limit.
  struct Limit {
    std::uint32_t octets = 0;
    Duration period{0};
  };
  void limit(const Limit& limit) noexcept { limit_ = limit; }

  [[nodiscard]] bool may_send(Instant now) const noexcept { return now >= not_before_; }
  void handle_sent(Instant now, std::size_t octets) noexcept {
    if (limit_.octets == 0) return;
    if (now >= period_ends_) {
      period_ends_ = now + limit_.period;
      sent_ = 0;
    }
    sent_ += octets;
    if (sent_ >= limit_.octets) not_before_ = period_ends_;
  }
  /// The receiver has no room.
  void hold_until(Instant until) noexcept { not_before_ = std::max(not_before_, until); }
  void handle_congestion_notification(Instant) noexcept { ++notifications_; }
  [[nodiscard]] Instant next_opportunity() const noexcept { return not_before_; }
  [[nodiscard]] std::uint64_t notification_count() const noexcept { return notifications_; }

 private:
  Limit limit_{};
  Instant not_before_{};
  Instant period_ends_{};
  std::size_t sent_ = 0;             // octets in this period
  std::uint64_t notifications_ = 0;  // CNPs that arrived
};

}  // namespace verbatim::transport
