// SPDX-License-Identifier: Apache-2.0
#include "fabric/mads/rmpp_receiver.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/prng.h"
#include "fabric/mads/rmpp_sender.h"
#include "fabric/mads/test_mads.h"

namespace verbatim::fabric {
namespace {

using wire::MgmtClass;
using wire::RmppStatus;

constexpr std::size_t kOctetsMax = 1U << 20;
constexpr test::Header kHeader{.mgmt_class = MgmtClass::kSubnetAdministration, .class_version = 2};

using Segment = std::array<std::byte, wire::Mad::kSize>;

/// All segments of a message, as a sender with an open window writes them.
std::vector<Segment> segments_of(const test::Octets& message) {
  RmppSender sender(message);
  std::vector<Segment> segments;
  while (true) {
    while (sender.has_next()) sender.emit_next(segments.emplace_back());
    if (segments.size() == sender.segment_count()) return segments;
    const auto last = static_cast<std::uint32_t>(segments.size());
    EXPECT_TRUE(sender.handle_ack(last, last + 64));
  }
}
Expected<RmppStep, RmppStatus> give(RmppReceiver& receiver, const Segment& segment) {
  return receiver.handle_segment(wire::MadView::parse(segment).value());
}
Segment with(Segment segment, const wire::Rmpp& header) {
  header.emit(segment);
  return segment;
}
wire::Rmpp header_of(const Segment& segment) { return wire::RmppView(segment).value(); }

/// The headers and data without the RMPP header, which the first segment has overwritten.
void expect_same(const test::Octets& got, const test::Octets& sent) {
  ASSERT_EQ(got.size(), sent.size());
  EXPECT_TRUE(std::equal(got.begin(), got.begin() + 24, sent.begin()));
  EXPECT_TRUE(std::equal(got.begin() + 36, got.end(), sent.begin() + 36));
}

TEST(RmppReceiver, PutsMessagesOfEveryLengthTogether) {
  for (std::size_t octets = 0; octets <= 1000; ++octets) {
    SCOPED_TRACE(octets);
    for (const auto mgmt_class : {kHeader.mgmt_class, test::kVendor, MgmtClass{0x06}}) {
      const auto message = test::message({.mgmt_class = mgmt_class}, octets);
      RmppReceiver receiver(kOctetsMax);
      const auto segments = segments_of(message);
      for (const Segment& segment : segments) {
        ASSERT_FALSE(receiver.is_complete());
        ASSERT_TRUE(give(receiver, segment));
      }
      ASSERT_TRUE(receiver.is_complete());
      expect_same(receiver.take_message(), message);
      EXPECT_EQ(receiver.held_octets(), 0);
    }
  }
}

TEST(RmppReceiver, AcknowledgesTheFirstSegmentTheEndOfEachWindowAndTheWhole) {
  const auto segments = segments_of(test::message(kHeader, 200 * 200));
  RmppReceiver receiver(kOctetsMax);
  std::vector<std::uint32_t> acknowledged;
  for (const Segment& segment : segments) {
    if (give(receiver, segment)->must_acknowledge) {
      acknowledged.push_back(receiver.acknowledgement().segment);
    }
  }
  EXPECT_EQ(acknowledged, (std::vector<std::uint32_t>{1, 65, 129, 193, 200}));
}

TEST(RmppReceiver, OpensTheWindowBySixtyFourSegments) {
  const auto segments = segments_of(test::message(kHeader, 200 * 200));
  RmppReceiver receiver(kOctetsMax);
  ASSERT_TRUE(give(receiver, segments[0]));
  EXPECT_EQ(receiver.acknowledgement(),
            (wire::Rmpp{.type = wire::RmppType::kAck, .segment = 1, .extent = 65}));
  for (std::size_t i = 1; i < 65; ++i) ASSERT_TRUE(give(receiver, segments[i]));
  EXPECT_EQ(receiver.acknowledgement().extent, 129);
}

TEST(RmppReceiver, AcknowledgesRepeatedSegmentsAndDoesNotStoreThem) {
  const auto message = test::message(kHeader, 900);
  const auto segments = segments_of(message);
  RmppReceiver receiver(kOctetsMax);
  (void)give(receiver, segments[0]);
  (void)give(receiver, segments[2]);
  Segment forged = segments[2];
  forged[100] ^= std::byte{1};
  for (const Segment& repeated : {segments[0], forged}) {
    const auto step = give(receiver, repeated);
    EXPECT_TRUE(step->must_acknowledge);
    EXPECT_FALSE(step->is_new);
  }
  EXPECT_EQ(receiver.acknowledgement().segment, 1);
  (void)give(receiver, segments[1]);
  EXPECT_EQ(receiver.acknowledgement().segment, 3);
  (void)give(receiver, segments[3]);
  EXPECT_TRUE(give(receiver, segments[4])->is_complete);
  expect_same(receiver.take_message(), message);
  EXPECT_TRUE(give(receiver, segments[4])->must_acknowledge);
  EXPECT_FALSE(give(receiver, segments[4])->is_complete);
}

TEST(RmppReceiver, TakesTheSegmentsOfAWindowInAnyOrder) {
  Prng prng(3);
  for (int round = 0; round < 50; ++round) {
    const auto message = test::message(kHeader, prng.below(200 * 300));
    auto segments = segments_of(message);
    RmppReceiver receiver(kOctetsMax);
    ASSERT_TRUE(give(receiver, segments[0]));
    while (!receiver.is_complete()) {
      const auto ack = receiver.acknowledgement();
      const auto from = segments.begin() + ack.segment;
      const auto to = segments.begin() + std::min<std::ptrdiff_t>(ack.extent, std::ssize(segments));
      for (auto it = from; it != to; ++it) {
        const auto left = static_cast<std::uint64_t>(to - it);
        std::iter_swap(it, it + static_cast<std::ptrdiff_t>(prng.below(left)));
      }
      for (auto it = from; it != to; ++it) ASSERT_TRUE(give(receiver, *it));
      std::sort(from, to, [](const Segment& a, const Segment& b) {
        return header_of(a).segment < header_of(b).segment;
      });
    }
    expect_same(receiver.take_message(), message);
  }
}

TEST(RmppReceiver, DropsSegmentsBehindTheWindow) {
  const auto segments = segments_of(test::message(kHeader, 200 * 200));
  RmppReceiver receiver(kOctetsMax);
  EXPECT_FALSE(give(receiver, segments[1])->must_acknowledge);
  (void)give(receiver, segments[0]);
  EXPECT_FALSE(give(receiver, segments[65])->is_new);
  EXPECT_TRUE(give(receiver, segments[64])->is_new);
}

TEST(RmppReceiver, RefusesContradictions) {
  const auto segments = segments_of(test::message(kHeader, 500));
  const auto refusal = [&](std::size_t index, auto change) {
    RmppReceiver receiver(kOctetsMax);
    (void)give(receiver, segments[0]);
    wire::Rmpp header = header_of(segments[index]);
    change(header);
    if (index == 0) receiver = RmppReceiver(kOctetsMax);
    const auto step = give(receiver, with(segments[index], header));
    return step ? RmppStatus::kNormal : step.error();
  };
  using wire::Rmpp;
  EXPECT_EQ(refusal(0, [](Rmpp& h) { h.is_first = false; }), RmppStatus::kBadSegment);
  EXPECT_EQ(refusal(1, [](Rmpp& h) { h.is_first = true; }), RmppStatus::kBadSegment);
  EXPECT_EQ(refusal(1, [](Rmpp& h) { h.segment = 0; }), RmppStatus::kBadSegment);
  EXPECT_EQ(refusal(1, [](Rmpp& h) { h.status = RmppStatus::kUnspecified; }),
            RmppStatus::kBadStatus);
  EXPECT_EQ(refusal(2, [](Rmpp& h) { h.extent = 19; }), RmppStatus::kBadLength);
  EXPECT_EQ(refusal(2, [](Rmpp& h) { h.extent = 221; }), RmppStatus::kBadLength);
  EXPECT_EQ(refusal(2, [](Rmpp& h) { h.extent = 20; }), RmppStatus::kNormal);
  EXPECT_EQ(refusal(2, [](Rmpp& h) { h.extent = 220; }), RmppStatus::kNormal);
}

TEST(RmppReceiver, RefusesASegmentAfterTheLastOne) {
  const auto segments = segments_of(test::message(kHeader, 900));
  RmppReceiver receiver(kOctetsMax);
  (void)give(receiver, segments[0]);
  wire::Rmpp header = header_of(segments[2]);
  header.is_last = true;
  header.extent = 100;
  ASSERT_TRUE(give(receiver, with(segments[2], header)));
  EXPECT_EQ(give(receiver, segments[3]).error(), RmppStatus::kBadSegment);
}

TEST(RmppReceiver, StopsAMessageThatIsTooLong) {
  const auto segments = segments_of(test::message(kHeader, 600));
  RmppReceiver receiver(500);
  EXPECT_TRUE(give(receiver, segments[0]));
  EXPECT_TRUE(give(receiver, segments[1]));
  EXPECT_EQ(give(receiver, segments[2]).error(), RmppStatus::kResourcesExhausted);
}

}  // namespace
}  // namespace verbatim::fabric
