// SPDX-License-Identifier: Apache-2.0
// A sender and a receiver of RMPP with a pipe between them that loses, repeats, exchanges and
// forges segments and acknowledgements. Neither may exceed its window or its memory; without
// forgery the message arrives as it was sent.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "base/test_fuzz.h"
#include "fabric/mads/rmpp_receiver.h"
#include "fabric/mads/rmpp_sender.h"
#include "wire/headers/mad.h"
#include "wire/management/rmpp.h"

namespace verbatim::fabric {
namespace {

constexpr std::size_t kOctetsMax = 64 * 1024;
using Segment = std::array<std::byte, wire::Mad::kSize>;

std::vector<std::byte> message_of(test::FuzzInput& choices) {
  static constexpr wire::MgmtClass kClasses[] = {wire::MgmtClass::kSubnetAdministration,
                                                 wire::MgmtClass{0x32}, wire::MgmtClass{0x06}};
  const wire::MgmtClass mgmt_class = kClasses[choices.octet_below(std::size(kClasses))];
  std::vector<std::byte> message(wire::Mad::kSize);
  wire::Mad{.header = {.mgmt_class = mgmt_class, .method = wire::MadMethod{0x92}}}.emit(
      std::span<std::byte, wire::Mad::kSize>(message));
  message.resize(wire::header_octets_of(mgmt_class));
  const std::size_t data_max = choices.octet_below(8) == 0 ? 20'000 : 1'200;  // a long one is slow
  const std::size_t data = choices.two_octets() % data_max;
  for (std::size_t i = 0; i < data; ++i) message.push_back(static_cast<std::byte>(i * 7 + i / 200));
  return message;
}

class History {
 public:
  explicit History(test::FuzzInput& choices)
      : choices_(choices),
        message_(message_of(choices)),
        sender_(message_),
        receiver_(choices.octet_below(4) == 0 ? std::size_t{1000} : kOctetsMax) {}

  void run() {
    while (!choices_.is_empty() && !has_ended_) step();
    if (has_ended_ || is_forged_) return;
    // A pipe that loses nothing from now on brings the message to its end.
    for (std::uint32_t round = 0; !sender_.is_finished() && !has_ended_; ++round) {
      VB_ASSERT(round <= sender_.segment_count());
      sender_.repeat();
      while (sender_.has_next()) send();
      while (!segments_.empty()) arrive(0);
      while (!acks_.empty()) acknowledge(0);
    }
  }

 private:
  void step() {
    switch (choices_.octet_below(8)) {
      case 0:
      case 1:
        if (sender_.has_next()) send();
        break;
      case 2:
      case 3:
        if (!segments_.empty()) arrive(choices_.octet() % segments_.size());
        break;
      case 4:
        if (!acks_.empty()) acknowledge(choices_.octet() % acks_.size());
        break;
      case 5:
        lose();
        break;
      case 6:
        sender_.repeat();
        break;
      default:
        forge();
        break;
    }
  }
  void send() {
    sender_.emit_next(segments_.emplace_back());
    const wire::RmppView header(segments_.back());
    VB_ASSERT(header.segment() >= 1 && header.segment() <= sender_.segment_count());
    VB_ASSERT(header.is_first() == (header.segment() == 1));
    VB_ASSERT(header.is_last() == (header.segment() == sender_.segment_count()));
    if (segments_.size() > 1 && choices_.octet_below(16) == 0)
      segments_.push_back(segments_.back());
  }
  void arrive(std::size_t index) {
    const Segment segment = segments_[index];
    segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(index));
    give(segment);
  }
  void give(const Segment& segment) {
    const auto mad = wire::MadView::parse(segment);
    if (!mad) return;
    const auto step = receiver_.handle_segment(*mad);
    VB_ASSERT(receiver_.held_octets() <= 2 * kOctetsMax);
    if (!step) {
      has_ended_ = true;
      return;
    }
    if (step->must_acknowledge) acks_.push_back(receiver_.acknowledgement());
    if (step->is_complete) finish();
  }
  void finish() {
    const auto received = receiver_.take_message();
    VB_ASSERT(received.size() <= kOctetsMax);
    if (is_forged_) return;
    VB_ASSERT(received.size() == message_.size());
    VB_ASSERT(std::equal(received.begin() + 36, received.end(), message_.begin() + 36));
  }
  void acknowledge(std::size_t index) {
    const wire::Rmpp ack = acks_[index];
    acks_.erase(acks_.begin() + static_cast<std::ptrdiff_t>(index));
    const auto progress = sender_.handle_ack(ack.segment, ack.extent);
    if (!progress) {
      VB_ASSERT(is_forged_);
      has_ended_ = true;
    }
  }
  void lose() {
    if (!segments_.empty()) segments_.erase(segments_.begin());
    if (!acks_.empty() && choices_.octet_below(2) == 0) acks_.erase(acks_.begin());
  }
  void forge() {
    if (choices_.octet_below(4) != 0) return;  // most histories are honest
    is_forged_ = true;
    if (choices_.octet_below(2) == 0) {
      acks_.push_back(
          {.type = wire::RmppType::kAck, .segment = choices_.octet(), .extent = choices_.octet()});
      return;
    }
    Segment segment{};
    std::ranges::copy(std::span(message_).first(24), segment.begin());
    wire::Rmpp{.is_first = choices_.octet_below(2) == 0,
               .is_last = choices_.octet_below(4) == 0,
               .status = wire::RmppStatus{static_cast<std::uint8_t>(choices_.octet() & 1)},
               .segment = choices_.octet(),
               .extent = choices_.octet()}
        .emit(segment);
    give(segment);
  }

  test::FuzzInput& choices_;
  std::vector<std::byte> message_;
  RmppSender sender_;
  RmppReceiver receiver_;
  std::vector<Segment> segments_{};
  std::vector<wire::Rmpp> acks_{};
  bool is_forged_ = false;
  bool has_ended_ = false;
};

}  // namespace
}  // namespace verbatim::fabric

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  verbatim::test::FuzzInput choices(data, size);
  verbatim::fabric::History(choices).run();
  return 0;
}
