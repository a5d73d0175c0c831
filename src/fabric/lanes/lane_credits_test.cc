// SPDX-License-Identifier: Apache-2.0
#include "fabric/lanes/lane_credits.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <deque>

#include "base/prng.h"

namespace verbatim::fabric {
namespace {

LaneCredits credits_of(std::uint16_t blocks) {
  LaneCredits credits(blocks);
  credits.begin();
  return credits;
}

TEST(LaneCredits, APacketCountsItsOctetsFromTheLrhToTheVcrcInBlocksOf64) {
  EXPECT_EQ(blocks_of(7), 1);      // 28 + 2 octets
  EXPECT_EQ(blocks_of(15), 1);     // 62
  EXPECT_EQ(blocks_of(16), 2);     // 66
  EXPECT_EQ(blocks_of(1030), 65);  // 4,096 octets of payload with LRH, BTH and ICRC
}

TEST(LaneCredits, NothingMayBeSentBeforeTheLinkIsUpAndAfterItWentDown) {
  LaneCredits credits(100);
  EXPECT_FALSE(credits.may_send(1));
  credits.begin();
  EXPECT_TRUE(credits.may_send(1));
  credits.end();
  EXPECT_FALSE(credits.may_send(1));
}

TEST(LaneCredits, AsMuchMayBeSentAsTheBufferHolds) {
  LaneCredits credits = credits_of(100);
  EXPECT_TRUE(credits.may_send(100));
  EXPECT_FALSE(credits.may_send(101));
  credits.send(60);
  credits.receive(60);
  EXPECT_EQ(credits.credits(), 40);
  EXPECT_FALSE(credits.may_send(41));
  credits.release(60);
  EXPECT_TRUE(credits.may_send(100));
}

TEST(LaneCredits, AReceiverGrantsAtMost2048Blocks) {
  LaneCredits credits = credits_of(LaneCredits::kWindow);
  EXPECT_EQ(credits.credits(), 2048);
  EXPECT_TRUE(credits.may_send(2048));
  EXPECT_FALSE(credits.may_send(2049));
}

TEST(LaneCredits, FlowControlRepairsWhatALostPacketTook) {
  LaneCredits credits = credits_of(100);
  credits.send(70);
  EXPECT_FALSE(credits.may_send(31));
  EXPECT_NE(credits.total_arrived(), credits.total_sent());
  credits.control_flow();
  EXPECT_EQ(credits.total_arrived(), credits.total_sent());
  EXPECT_EQ(credits.credits(), 100);
}

TEST(LaneCredits, WhatIsInTheBufferStaysThereWhenTheLinkBeginsAnew) {
  LaneCredits credits = credits_of(100);
  credits.send(70);
  credits.receive(70);
  credits.end();
  credits.begin();
  EXPECT_EQ(credits.total_sent(), 0);
  EXPECT_EQ(credits.credits(), 30);
  credits.release(70);
  EXPECT_EQ(credits.credits(), 100);
}

/// However the counters wrap around, the sender never fills more than the buffer.
TEST(LaneCredits, TheBufferIsNeverOverrun) {
  for (const auto blocks : std::to_array<std::uint16_t>({66, 256, 2048})) {
    LaneCredits credits = credits_of(blocks);
    Prng prng(blocks);
    std::deque<std::uint16_t> buffer;
    std::uint32_t in_buffer = 0;
    for (int step = 0; step < 50'000; ++step) {
      const auto size = static_cast<std::uint16_t>(prng.between(1, 66));
      if (prng.one_in(2) && credits.may_send(size)) {
        credits.send(size);
        if (prng.one_in(10)) {
          if (prng.one_in(2)) credits.control_flow();
          continue;
        }
        credits.receive(size);
        buffer.push_back(size);
        in_buffer += size;
      } else if (!buffer.empty()) {
        credits.release(buffer.front());
        in_buffer -= buffer.front();
        buffer.pop_front();
      }
      ASSERT_LE(in_buffer, blocks);
      ASSERT_EQ(credits.buffered(), in_buffer);
      ASSERT_LE(credits.credits(), blocks - in_buffer);
    }
    while (!buffer.empty()) {
      credits.release(buffer.front());
      buffer.pop_front();
    }
    credits.control_flow();
    EXPECT_EQ(credits.credits(), blocks);
  }
}

}  // namespace
}  // namespace verbatim::fabric
