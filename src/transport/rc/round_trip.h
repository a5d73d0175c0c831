// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

#include "base/time.h"

namespace verbatim::transport {

/// How long an acknowledgement takes to come, and from that how long a silence is suspicious. The
/// timeout that a program sets is a verdict, often of seconds; a lost last packet should not cost
/// so much. So a requester repeats what is unanswered much sooner, without counting it as a retry,
/// and waits twice as long before it does so again.
///
/// Means and deviations as TCP computes them (RFC 6298).
class RoundTrip {
 public:
  /// Nothing is suspicious before this: peers are busy, and machines schedule in milliseconds.
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
  /// The silence was broken.
  void handle_progress() noexcept { doublings_ = 0; }
  /// The silence was acted upon.
  void handle_suspicion() noexcept { doublings_ = std::min(doublings_ + 1, 20); }

  [[nodiscard]] bool is_known() const noexcept { return mean_ > Duration::zero(); }
  [[nodiscard]] Duration mean() const noexcept { return mean_; }
  /// How long a silence is suspicious now. Only where is_known().
  [[nodiscard]] Duration suspicion() const noexcept {
    return std::max(mean_ + 4 * deviation_, kSmallestSuspicion) * (1 << doublings_);
  }

 private:
  Duration mean_{0};
  Duration deviation_{0};
  int doublings_ = 0;
};

}  // namespace verbatim::transport
