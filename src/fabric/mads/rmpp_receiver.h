// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/expected.h"
#include "wire/headers/mad.h"
#include "wire/management/rmpp.h"

namespace verbatim::fabric {

/// What the owner of a receiver has to do after a segment.
struct RmppStep {
  bool must_acknowledge = false;  // with the receiver's acknowledgement()
  bool is_new = false;            // the segment was not known before
  bool is_complete = false;       // by this segment: take_message() has the message
};

/// A message that arrives in segments (IBA Vol 1, 13.6.6), in any order within the window. It
/// acknowledges the first segment, the end of each window, each repeated segment, and the whole. It
/// has no timers.
class RmppReceiver {
 public:
  static constexpr std::uint32_t kWindowSegments = 64;

  /// `octets_max`: of the message.
  explicit RmppReceiver(std::size_t octets_max) noexcept : octets_max_(octets_max) {}

  /// An error: the message cannot be received; kResourcesExhausted is for a STOP, the others are
  /// for an ABORT.
  Expected<RmppStep, wire::RmppStatus> handle_segment(const wire::MadView& mad);

  /// With which segment and window to acknowledge.
  [[nodiscard]] wire::Rmpp acknowledgement() const noexcept;
  [[nodiscard]] bool is_complete() const noexcept { return in_order_ != 0 && in_order_ == last_; }
  /// Once, when complete. The receiver goes on to acknowledge segments.
  [[nodiscard]] std::vector<std::byte> take_message() noexcept {
    return std::exchange(message_, {});
  }
  /// Octets that it holds.
  [[nodiscard]] std::size_t held_octets() const noexcept { return message_.capacity(); }

 private:
  [[nodiscard]] Expected<RmppStep, wire::RmppStatus> store(const wire::MadView& mad);
  void advance() noexcept;

  std::size_t octets_max_;
  std::vector<std::byte> message_{};
  std::bitset<2 * kWindowSegments> known_{};  // by segment, modulo: those after in_order_
  std::uint32_t in_order_ = 0;                // this segment and all before it have arrived
  std::uint32_t window_last_ = 1;             // segments after this one are not accepted
  std::uint32_t last_ = 0;                    // the segment that ends the message; 0: not known yet
  std::uint32_t last_octets_ = 0;             // of data in that segment
};

}  // namespace verbatim::fabric
