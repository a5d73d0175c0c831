// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "wire/headers/psn.h"

namespace verbatim::transport {

/// How many sequence numbers a requester may have in flight. A packet is mostly lost where a buffer
/// is full, the receiving socket's above all; so the window halves with a loss, once for all that
/// was in flight then, and grows again while nothing is lost, by a sixteenth per window that was
/// acknowledged.
class SendWindow {
 public:
  /// Begins wide open. `largest` is at least one.
  void start(std::uint32_t largest) noexcept {
    largest_ = packets_ = largest;
    acknowledged_ = 0;
    recovers_ = false;
  }
  /// A new limit for a connection that goes on.
  void limit(std::uint32_t largest) noexcept {
    largest_ = largest;
    packets_ = std::min(packets_, largest);
  }
  [[nodiscard]] std::uint32_t packets() const noexcept { return packets_; }
  /// Sequence numbers after which to ask for an acknowledgement: often enough to keep it moving.
  [[nodiscard]] std::uint32_t ack_period() const noexcept { return std::max(packets_ / 4, 1U); }

  /// Something before `newest`, which is one past the newest sent, was lost.
  void handle_loss(wire::Psn newest) noexcept {
    if (recovers_) return;
    recovers_ = true;
    recovered_at_ = newest;
    packets_ = std::max(packets_ / 2, std::min(kSmallest, largest_));
    acknowledged_ = 0;
  }

  /// Everything before `oldest` has arrived, `count` of it for the first time.
  void handle_progress(wire::Psn oldest, std::uint32_t count) noexcept {
    if (recovers_ && oldest.is_before(recovered_at_)) return;
    recovers_ = false;
    if (packets_ == largest_) return;
    acknowledged_ += count;
    if (acknowledged_ < packets_) return;
    acknowledged_ = 0;
    packets_ = std::min(packets_ + std::max(largest_ / 16, 1U), largest_);
  }

 private:
  static constexpr std::uint32_t kSmallest = 8;

  std::uint32_t largest_ = 1;
  std::uint32_t packets_ = 1;
  std::uint32_t acknowledged_ = 0;  // since the window last grew
  bool recovers_ = false;           // from a loss
  wire::Psn recovered_at_{};        // everything before has arrived: it is over
};

}  // namespace verbatim::transport
