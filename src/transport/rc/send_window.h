// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "wire/headers/psn.h"

namespace verbatim::transport {

/// The number of sequence numbers that a requester may have in flight. Most packets are lost at a
/// full buffer, mostly that of the receiving socket. So a loss halves the window, once for all
/// packets that were in flight then. Without losses the window grows again, by a sixteenth of its
/// largest size per window that was acknowledged.
class SendWindow {
 public:
  /// Begins with the largest window. `largest` is at least one.
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
  /// After this many sequence numbers an acknowledgement is requested, so that the window stays
  /// open.
  [[nodiscard]] std::uint32_t ack_period() const noexcept { return std::max(packets_ / 4, 1U); }

  /// A packet before `newest` was lost, which is one past the newest that was sent.
  void handle_loss(wire::Psn newest) noexcept {
    if (recovers_) return;
    recovers_ = true;
    recovered_at_ = newest;
    packets_ = std::max(packets_ / 2, std::min(kSmallest, largest_));
    acknowledged_ = 0;
  }

  /// All packets before `oldest` have arrived, `count` of them since the last call.
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
  bool recovers_ = false;           // after a loss, until recovered_at_
  wire::Psn recovered_at_{};        // the recovery ends when all packets before it have arrived
};

}  // namespace verbatim::transport
