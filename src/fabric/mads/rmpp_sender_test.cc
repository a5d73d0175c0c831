// SPDX-License-Identifier: Apache-2.0
#include "fabric/mads/rmpp_sender.h"

#include <gtest/gtest.h>

#include "fabric/mads/test_mads.h"

namespace verbatim::fabric {
namespace {

using test::kVendor;
using wire::MgmtClass;
using wire::RmppStatus;

RmppSender sender_of(std::size_t data_octets,
                     MgmtClass mgmt_class = MgmtClass::kSubnetAdministration) {
  return RmppSender(test::message({.mgmt_class = mgmt_class, .class_version = 2}, data_octets));
}

struct Segment {
  std::array<std::byte, wire::Mad::kSize> octets{};
  [[nodiscard]] wire::RmppView header() const { return wire::RmppView(octets); }
};
Segment next_of(RmppSender& sender) {
  Segment segment;
  sender.emit_next(segment.octets);
  return segment;
}

TEST(RmppSender, CountsTheSegmentsOfAMessage) {
  EXPECT_EQ(sender_of(0).segment_count(), 1);
  EXPECT_EQ(sender_of(1).segment_count(), 1);
  EXPECT_EQ(sender_of(200).segment_count(), 1);
  EXPECT_EQ(sender_of(201).segment_count(), 2);
  EXPECT_EQ(sender_of(216, kVendor).segment_count(), 1);
  EXPECT_EQ(sender_of(217, kVendor).segment_count(), 2);
  EXPECT_EQ(sender_of(193, MgmtClass{0x06}).segment_count(), 2);
}

TEST(RmppSender, OneSegmentIsFirstAndLastAndHasItsLengthWithTheClassHeader) {
  RmppSender sender = sender_of(1);
  const Segment segment = next_of(sender);
  EXPECT_EQ(segment.header().value(),
            (wire::Rmpp{.is_first = true, .is_last = true, .segment = 1, .extent = 21}));
  EXPECT_FALSE(sender.has_next());
}

TEST(RmppSender, TheFirstSegmentHasTheLengthOfAllAndTheLastItsOwn) {
  RmppSender sender = sender_of(450);
  // 450 octets of data and three times 20 of the header of subnet administration.
  EXPECT_EQ(next_of(sender).header().value(),
            (wire::Rmpp{.is_first = true, .segment = 1, .extent = 510}));
  EXPECT_FALSE(sender.has_next());
  ASSERT_TRUE(sender.handle_ack(1, 65));
  EXPECT_EQ(next_of(sender).header().value(), (wire::Rmpp{.segment = 2, .extent = 0}));
  EXPECT_EQ(next_of(sender).header().value(),
            (wire::Rmpp{.is_last = true, .segment = 3, .extent = 70}));
  EXPECT_FALSE(sender.has_next());
}

TEST(RmppSender, EverySegmentRepeatsTheHeadersAndTheLastIsFilledWithZeroes) {
  const auto message = test::message({.mgmt_class = kVendor}, 217);
  RmppSender sender(message);
  (void)next_of(sender);
  ASSERT_TRUE(sender.handle_ack(1, 2));
  const Segment last = next_of(sender);
  EXPECT_TRUE(std::equal(message.begin(), message.begin() + 24, last.octets.begin()));
  EXPECT_TRUE(std::equal(message.begin() + 36, message.begin() + 40, last.octets.begin() + 36));
  EXPECT_EQ(last.octets[40], message[40 + 216]);
  for (std::size_t i = 41; i < last.octets.size(); ++i) EXPECT_EQ(last.octets[i], std::byte{0});
}

TEST(RmppSender, SendsNoMoreThanTheWindowAllows) {
  RmppSender sender = sender_of(2000);
  (void)next_of(sender);
  ASSERT_TRUE(sender.handle_ack(1, 4));
  for (std::uint32_t segment = 2; segment <= 4; ++segment) {
    ASSERT_TRUE(sender.has_next());
    EXPECT_EQ(next_of(sender).header().segment(), segment);
  }
  EXPECT_FALSE(sender.has_next());
}

TEST(RmppSender, GoesBackToTheFirstUnacknowledgedSegment) {
  RmppSender sender = sender_of(2000);
  (void)next_of(sender);
  ASSERT_TRUE(sender.handle_ack(1, 9));
  for (int i = 0; i < 8; ++i) (void)next_of(sender);
  ASSERT_TRUE(sender.handle_ack(3, 9));
  sender.repeat();
  EXPECT_EQ(next_of(sender).header().segment(), 4);
  ASSERT_TRUE(sender.handle_ack(8, 9));  // of what was sent before the repetition
  EXPECT_EQ(next_of(sender).header().segment(), 9);
}

TEST(RmppSender, IsFinishedByTheAcknowledgementOfTheLastSegment) {
  RmppSender sender = sender_of(1);
  (void)next_of(sender);
  EXPECT_EQ(sender.handle_ack(1, 1).value(), RmppProgress::kFinished);
  EXPECT_TRUE(sender.is_finished());
  EXPECT_EQ(sender.handle_ack(1, 1).value(), RmppProgress::kNone);
}

TEST(RmppSender, IgnoresOldAcknowledgements) {
  RmppSender sender = sender_of(2000);
  (void)next_of(sender);
  EXPECT_EQ(sender.handle_ack(0, 1).value(), RmppProgress::kNone);
  EXPECT_EQ(sender.handle_ack(1, 65).value(), RmppProgress::kSome);
  EXPECT_EQ(sender.handle_ack(1, 65).value(), RmppProgress::kNone);
  EXPECT_EQ(sender.handle_ack(1, 3).value(), RmppProgress::kNone);
  EXPECT_EQ(sender.handle_ack(0, 65).value(), RmppProgress::kNone);
  EXPECT_EQ(sender.acknowledged(), 1);
  EXPECT_TRUE(sender.has_next());
}

TEST(RmppSender, RefusesAcknowledgementsThatContradictWhatWasSent) {
  RmppSender sender = sender_of(2000);
  (void)next_of(sender);
  EXPECT_EQ(sender.handle_ack(1, 0).error(), RmppStatus::kWindowTooSmall);
  EXPECT_EQ(sender.handle_ack(2, 65).error(), RmppStatus::kSegmentTooBig);
  ASSERT_TRUE(sender.handle_ack(1, 65));
  EXPECT_EQ(sender.handle_ack(11, 65).error(), RmppStatus::kSegmentTooBig);
}

}  // namespace
}  // namespace verbatim::fabric
