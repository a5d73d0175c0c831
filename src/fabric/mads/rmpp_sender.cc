// SPDX-License-Identifier: Apache-2.0
#include "fabric/mads/rmpp_sender.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/byte_order.h"

namespace verbatim::fabric {
namespace {

[[nodiscard]] wire::MgmtClass class_of(std::span<const std::byte> message) noexcept {
  VB_ASSERT(message.size() >= wire::MadHeader::kSize);
  return wire::MgmtClass{std::to_integer<std::uint8_t>(message[1])};
}
/// A message without data has one segment, too.
[[nodiscard]] std::uint32_t segments_for(std::size_t data_octets, std::size_t of_each) noexcept {
  return static_cast<std::uint32_t>(
      std::max<std::size_t>(1, (data_octets + of_each - 1) / of_each));
}

}  // namespace

RmppSender::RmppSender(std::vector<std::byte> message)
    : message_(std::move(message)), header_octets_(wire::header_octets_of(class_of(message_))) {
  VB_ASSERT(message_.size() >= header_octets_ && header_octets_ >= wire::Rmpp::kEnd);
  segment_count_ =
      segments_for(message_.size() - header_octets_, wire::Mad::kSize - header_octets_);
}

bool RmppSender::has_next() const noexcept {
  return next_ <= std::min(window_last_, segment_count_);
}

void RmppSender::emit_next(std::span<std::byte, wire::Mad::kSize> to) noexcept {
  VB_ASSERT(has_next());
  const std::size_t of_each = wire::Mad::kSize - header_octets_;
  const std::size_t from = header_octets_ + (next_ - 1) * of_each;
  const std::size_t octets = std::min(of_each, message_.size() - from);
  const std::size_t missing = segment_count_ * of_each - (message_.size() - header_octets_);
  std::ranges::fill(to, std::byte{0});
  std::copy_n(message_.begin(), header_octets_, to.begin());
  std::copy_n(message_.begin() + static_cast<std::ptrdiff_t>(from), octets,
              to.begin() + static_cast<std::ptrdiff_t>(header_octets_));
  wire::Rmpp header{.is_first = next_ == 1, .is_last = next_ == segment_count_, .segment = next_};
  // The first segment has the length of the whole message, the last one its own: both count the
  // headers of the class in each segment.
  if (header.is_first) {
    header.extent =
        static_cast<std::uint32_t>(segment_count_ * wire::Rmpp::kSegmentOctets - missing);
  } else if (header.is_last) {
    header.extent = static_cast<std::uint32_t>(wire::Rmpp::kSegmentOctets - missing);
  }
  header.emit(to);
  ++next_;
}

Expected<RmppProgress, wire::RmppStatus> RmppSender::handle_ack(
    std::uint32_t segment, std::uint32_t window_last) noexcept {
  if (window_last < segment) return wire::RmppStatus::kWindowTooSmall;
  if (is_finished()) return RmppProgress::kNone;
  if (segment > segment_count_ || segment > window_last_) return wire::RmppStatus::kSegmentTooBig;
  if (window_last < window_last_ || segment < acknowledged_) return RmppProgress::kNone;
  const bool is_news = segment > acknowledged_ || window_last > window_last_;
  acknowledged_ = segment;
  window_last_ = window_last;
  next_ = std::max(next_, acknowledged_ + 1);
  if (is_finished()) return RmppProgress::kFinished;
  return is_news ? RmppProgress::kSome : RmppProgress::kNone;
}

}  // namespace verbatim::fabric
