// SPDX-License-Identifier: Apache-2.0
#include "fabric/mads/rmpp_receiver.h"

#include <algorithm>
#include <utility>

namespace verbatim::fabric {

using wire::RmppStatus;

Expected<RmppStep, RmppStatus> RmppReceiver::handle_segment(const wire::MadView& mad) {
  const wire::RmppView header(mad);
  const std::uint32_t segment = header.segment();
  if (header.status() != RmppStatus::kNormal) return RmppStatus::kBadStatus;
  if (segment == 0 || header.is_first() != (segment == 1)) return RmppStatus::kBadSegment;
  if (segment <= in_order_) return RmppStep{.must_acknowledge = true};
  if (segment > window_last_) return RmppStep{};
  if (last_ != 0 && segment > last_) return RmppStatus::kBadSegment;
  if (known_[segment % known_.size()]) return RmppStep{.must_acknowledge = true};
  return store(mad);
}

Expected<RmppStep, RmppStatus> RmppReceiver::store(const wire::MadView& mad) {
  const wire::RmppView header(mad);
  const std::size_t headers = wire::header_octets_of(mad.mgmt_class());
  const std::size_t of_each = wire::Mad::kSize - headers;
  const std::uint32_t segment = header.segment();
  if (header.is_last()) {
    const std::size_t class_octets = headers - wire::Rmpp::kEnd;
    if (header.extent() < class_octets || header.extent() > wire::Rmpp::kSegmentOctets) {
      return RmppStatus::kBadLength;
    }
    last_ = segment;
    last_octets_ = static_cast<std::uint32_t>(header.extent() - class_octets);
  }
  const std::size_t end = headers + std::size_t{segment} * of_each;
  if (end > octets_max_) return RmppStatus::kResourcesExhausted;
  if (message_.size() < end) message_.resize(end);
  if (segment == 1) std::ranges::copy(mad.octets().first(headers), message_.begin());
  std::ranges::copy(mad.octets().subspan(headers),
                    message_.begin() + static_cast<std::ptrdiff_t>(end - of_each));
  known_[segment % known_.size()] = true;
  advance();
  RmppStep step{.is_new = true, .is_complete = is_complete()};
  if (step.is_complete) message_.resize(headers + (last_ - 1) * of_each + last_octets_);
  step.must_acknowledge = step.is_complete || in_order_ == window_last_;
  if (in_order_ == window_last_ && !step.is_complete) window_last_ += kWindowSegments;
  return step;
}

void RmppReceiver::advance() noexcept {
  while (in_order_ != last_ || last_ == 0) {
    const std::size_t next = (in_order_ + 1) % known_.size();
    if (!known_[next]) return;
    known_[next] = false;
    ++in_order_;
  }
}

wire::Rmpp RmppReceiver::acknowledgement() const noexcept {
  return {.type = wire::RmppType::kAck, .segment = in_order_, .extent = window_last_};
}

}  // namespace verbatim::fabric
