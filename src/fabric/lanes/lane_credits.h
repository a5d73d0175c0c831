// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbatim::fabric {

/// The credits of one data lane of a link in one direction, as both ends count them (IBA Vol 1,
/// 7.9.4): blocks of 64 octets, modulo 4096. The sender counts what it has sent (TBS, which flow
/// control carries as FCTBS), the receiver what has arrived (ABR) and what its buffer holds. By
/// flow control the receiver learns TBS, and the sender the limit (FCCL) up to which it may send.
///
/// Flow control takes no time here: it happens whenever room becomes free, and after a loss.
class LaneCredits {
 public:
  static constexpr std::uint16_t kModulus = 4096;
  static constexpr std::uint16_t kWindow = 2048;  // the most that a receiver can grant

  LaneCredits() noexcept = default;
  /// A link that is not up: nothing may be sent. `buffer_blocks` at most kWindow.
  explicit LaneCredits(std::uint16_t buffer_blocks) noexcept : buffer_(buffer_blocks) {}

  /// The link comes up: both ends count from 0. What the buffer holds stays in it.
  void begin() noexcept {
    sent_ = 0;
    control_flow();
  }
  /// The link goes down.
  void end() noexcept { sent_ = arrived_ = limit_ = 0; }

  [[nodiscard]] bool may_send(std::uint16_t blocks) const noexcept {
    return ((limit_ - sent_ - blocks) & kMask) <= kWindow;
  }
  /// A packet leaves.
  void send(std::uint16_t blocks) noexcept { sent_ = (sent_ + blocks) & kMask; }
  /// It has not got lost on the link, and so is in the buffer.
  void receive(std::uint16_t blocks) noexcept {
    arrived_ = (arrived_ + blocks) & kMask;
    buffered_ = static_cast<std::uint16_t>(buffered_ + blocks);
  }
  /// A packet has left the buffer.
  void release(std::uint16_t blocks) noexcept {
    buffered_ = static_cast<std::uint16_t>(buffered_ - blocks);
    control_flow();
  }
  /// A flow control packet in either direction: the receiver repairs its count of what has arrived,
  /// in which lost packets are missing, and grants what it has room for.
  void control_flow() noexcept {
    arrived_ = sent_;
    limit_ = (arrived_ + std::min<std::uint16_t>(free_blocks(), kWindow)) & kMask;
  }

  /// Blocks that may be sent.
  [[nodiscard]] std::uint16_t credits() const noexcept {
    return static_cast<std::uint16_t>((limit_ - sent_) & kMask);
  }
  [[nodiscard]] std::uint16_t buffered() const noexcept { return buffered_; }
  [[nodiscard]] std::uint16_t free_blocks() const noexcept {
    return static_cast<std::uint16_t>(buffer_ - buffered_);
  }
  [[nodiscard]] std::uint16_t total_sent() const noexcept { return sent_; }        // TBS
  [[nodiscard]] std::uint16_t total_arrived() const noexcept { return arrived_; }  // ABR

 private:
  static constexpr std::uint16_t kMask = kModulus - 1;
  std::uint16_t sent_ = 0;
  std::uint16_t limit_ = 0;
  std::uint16_t arrived_ = 0;
  std::uint16_t buffered_ = 0;
  std::uint16_t buffer_ = 0;
};

/// What a packet occupies in a receive buffer, from its LRH to its VCRC.
[[nodiscard]] constexpr std::uint16_t blocks_of(std::uint16_t words) noexcept {
  return static_cast<std::uint16_t>((std::uint32_t{words} * 4 + 2 + 63) / 64);
}

}  // namespace verbatim::fabric
