// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

#include "base/time.h"

namespace verbatim::transport {

/// Measures how long an acknowledgement takes, and derives after which time without one a loss is
/// suspected. The timeout that a program sets is often of seconds; the loss of a last packet should
/// not cost so much. So a requester repeats unanswered packets after the suspicion time, without
/// counting it as a retry, and doubles that time before it does so again.
///
/// Mean and deviation are computed as in TCP (RFC 6298).
class RoundTrip {
 public:
  /// The smallest suspicion time: peers are busy, and machines schedule in milliseconds.
  static constexpr Duration kSmallestSuspicion = std::chrono::milliseconds(2);

  void handle_sample(Duration sample) noexcept {
    if (!is_known()) {
      mean_ = std::max(sample, Duration(1));
      deviation_ = sample / 2;
    } else {
      const Duration difference = sample > mean_ ? sample - mean_ : mean_ - sample;
      deviation_ += (difference - deviation_) / 4;
      mean_ += (sample - mean_) / 8;
    }
    doublings_ = 0;
  }
  /// An acknowledgement has arrived.
  void handle_progress() noexcept { doublings_ = 0; }
  /// Packets were repeated because of a suspicion.
  void handle_suspicion() noexcept { doublings_ = std::min(doublings_ + 1, 20); }

  [[nodiscard]] bool is_known() const noexcept { return mean_ > Duration::zero(); }
  [[nodiscard]] Duration mean() const noexcept { return mean_; }
  /// The time without an acknowledgement after which a loss is suspected. Only if is_known().
  [[nodiscard]] Duration suspicion() const noexcept {
    return std::max(mean_ + 4 * deviation_, kSmallestSuspicion) * (1 << doublings_);
  }

 private:
  Duration mean_{0};
  Duration deviation_{0};
  int doublings_ = 0;
};

}  // namespace verbatim::transport
