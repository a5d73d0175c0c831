// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/expected.h"
#include "wire/headers/mad.h"
#include "wire/management/rmpp.h"

namespace verbatim::fabric {

/// What an acknowledgement meant for a message.
enum class RmppProgress : std::uint8_t {
  kNone,      // an old one, or one that was repeated
  kSome,      // segments were acknowledged, or the window was opened
  kFinished,  // the receiver has the whole message
};

/// A message on its way in segments (IBA Vol 1, 13.6.5): the first alone, then as many as the
/// receiver's window allows, and again from the first unacknowledged one after silence. It has no
/// timers; its owner calls repeat().
class RmppSender {
 public:
  /// `message`: the headers, which are repeated in each segment, and the data. It must have at
  /// least the headers of its class.
  explicit RmppSender(std::vector<std::byte> message);

  [[nodiscard]] std::uint32_t segment_count() const noexcept { return segment_count_; }
  [[nodiscard]] std::uint32_t acknowledged() const noexcept { return acknowledged_; }
  [[nodiscard]] bool is_finished() const noexcept { return acknowledged_ == segment_count_; }
  /// Whether emit_next() has a segment that the window allows.
  [[nodiscard]] bool has_next() const noexcept;
  void emit_next(std::span<std::byte, wire::Mad::kSize> to) noexcept;

  /// An error: the acknowledgement contradicts what was sent; the message ends by an ABORT.
  Expected<RmppProgress, wire::RmppStatus> handle_ack(std::uint32_t segment,
                                                      std::uint32_t window_last) noexcept;
  /// Goes back to the first segment that was not acknowledged.
  void repeat() noexcept { next_ = acknowledged_ + 1; }

  [[nodiscard]] std::span<const std::byte> message() const noexcept { return message_; }

 private:
  std::vector<std::byte> message_;
  std::size_t header_octets_;
  std::uint32_t segment_count_;
  std::uint32_t next_ = 1;          // the segment to be sent next
  std::uint32_t acknowledged_ = 0;  // this one and all before it
  std::uint32_t window_last_ = 1;   // no segment after this one may be sent
};

}  // namespace verbatim::fabric
