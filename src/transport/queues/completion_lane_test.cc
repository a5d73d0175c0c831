// SPDX-License-Identifier: Apache-2.0
#include "transport/queues/completion_lane.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "transport/queues/test_block.h"

namespace verbatim::transport {
namespace {

// Where the counters lie in the block: each has a cache line of its own.
constexpr std::size_t kTailAt = 64;
constexpr std::size_t kHeadAt = 128;

class LaneTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kDepth = 4;

  bool push(std::uint64_t wr_id) { return lane_.push(completion(wr_id)); }
  /// The next completion's work request; kNothing when there is none.
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  std::uint64_t pop() {
    Completion got;
    return lane_.pop(got) ? got.wr_id : kNothing;
  }

  TestBlock block_{CompletionLane::octets_for(kDepth)};
  CompletionLane lane_ = CompletionLane::create(block_.span(), kDepth);
};

TEST_F(LaneTest, BeginsEmptyWhateverTheMemoryHeld) {
  EXPECT_TRUE(lane_.exists());
  EXPECT_FALSE(CompletionLane().exists());
  EXPECT_EQ(lane_.depth(), kDepth);
  EXPECT_EQ(lane_.count(), 0U);
  EXPECT_EQ(pop(), kNothing);
}

TEST_F(LaneTest, GivesBackInTheOrderOfProduction) {
  for (std::uint64_t i = 0; i < kDepth; ++i) ASSERT_TRUE(push(i));
  for (std::uint64_t i = 0; i < kDepth; ++i) EXPECT_EQ(pop(), i);
  EXPECT_EQ(pop(), kNothing);
}

TEST_F(LaneTest, KeepsEveryFieldOfACompletion) {
  const Completion sent{.wr_id = 0x1122'3344'5566'7788,
                        .status = WcStatus::kRemoteAccess,
                        .opcode = WcOpcode::kReceiveWithImm,
                        .flags = WcFlags::kGrh | WcFlags::kWithImm,
                        .solicited = true,
                        .octets = 4711,
                        .imm_or_key = 0xdead'beef,
                        .qp = wire::QpNumber{0x11},
                        .source_qp = wire::QpNumber{0x22},
                        .detail = 15,
                        .timestamp = 99};
  ASSERT_TRUE(lane_.push(sent));
  Completion got;
  ASSERT_TRUE(lane_.pop(got));
  EXPECT_EQ(got.wr_id, sent.wr_id);
  EXPECT_EQ(got.status, sent.status);
  EXPECT_EQ(got.opcode, sent.opcode);
  EXPECT_EQ(got.flags, sent.flags);
  EXPECT_EQ(got.solicited, sent.solicited);
  EXPECT_EQ(got.octets, sent.octets);
  EXPECT_EQ(got.imm_or_key, sent.imm_or_key);
  EXPECT_EQ(got.qp, sent.qp);
  EXPECT_EQ(got.source_qp, sent.source_qp);
  EXPECT_EQ(got.detail, sent.detail);
  EXPECT_EQ(got.timestamp, sent.timestamp);
}

TEST_F(LaneTest, RefusesWhenFullAndLosesNothing) {
  for (std::uint64_t i = 0; i < kDepth; ++i) ASSERT_TRUE(push(i));
  EXPECT_FALSE(push(99));
  EXPECT_EQ(lane_.count(), kDepth);
  EXPECT_EQ(pop(), 0U);
  EXPECT_TRUE(push(4));
  EXPECT_FALSE(push(99));
  for (std::uint64_t i = 1; i <= kDepth; ++i) EXPECT_EQ(pop(), i);
}

TEST_F(LaneTest, GoesRoundTheRingForEver) {
  std::uint64_t next_in = 0;
  std::uint64_t next_out = 0;
  for (int round = 0; round < 100; ++round) {
    const int burst = round % static_cast<int>(kDepth) + 1;
    for (int i = 0; i < burst; ++i) ASSERT_TRUE(push(next_in++));
    for (int i = 0; i < burst; ++i) ASSERT_EQ(pop(), next_out++);
  }
}

TEST_F(LaneTest, CountersMayWrap) {
  ASSERT_TRUE(push(0));
  ASSERT_EQ(pop(), 0U);
  ASSERT_EQ(block_.word(kTailAt), 1U);
  ASSERT_EQ(block_.word(kHeadAt), 1U);
  block_.word(kTailAt) = block_.word(kHeadAt) = 0xffff'fffe;
  lane_ = CompletionLane::attach(block_.span());
  EXPECT_EQ(lane_.count(), 0U);
  for (std::uint64_t i = 0; i < kDepth; ++i) ASSERT_TRUE(push(i));
  EXPECT_EQ(block_.word(kTailAt), 2U);
  EXPECT_EQ(lane_.count(), kDepth);
  EXPECT_FALSE(push(99));
  for (std::uint64_t i = 0; i < kDepth; ++i) ASSERT_EQ(pop(), i);
  EXPECT_EQ(pop(), kNothing);
  EXPECT_EQ(lane_.count(), 0U);
}

// A producer dies after it has stored the completion and before it has stored the counter.
TEST_F(LaneTest, CountsWhatADeadProducerHadPublished) {
  ASSERT_TRUE(push(1));
  ASSERT_TRUE(push(2));
  block_.word(kTailAt) = 1;
  EXPECT_EQ(lane_.count(), 1U);
  lane_.recover();
  lane_.recover();
  EXPECT_EQ(lane_.count(), 2U);
  ASSERT_TRUE(push(3));
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(pop(), i);
}

TEST_F(LaneTest, CollectsWhatIsNotCountedYet) {
  ASSERT_TRUE(push(1));
  block_.word(kTailAt) = 0;
  EXPECT_EQ(pop(), 1U);
  EXPECT_EQ(lane_.count(), 0U);
  EXPECT_EQ(pop(), kNothing);
}

// The head in the block is for the producer, which may be another process.
TEST_F(LaneTest, TheConsumerDoesNotReadItsPositionFromTheBlock) {
  ASSERT_TRUE(push(1));
  ASSERT_TRUE(push(2));
  EXPECT_EQ(pop(), 1U);
  block_.word(kHeadAt) = 0;
  EXPECT_EQ(pop(), 2U);
  EXPECT_EQ(block_.word(kHeadAt), 2U);
  block_.word(kHeadAt) = 1;
  EXPECT_EQ(pop(), kNothing);
}

TEST_F(LaneTest, ANewViewContinuesWhereTheLastOneStopped) {
  ASSERT_TRUE(push(1));
  ASSERT_TRUE(push(2));
  EXPECT_EQ(pop(), 1U);
  lane_ = CompletionLane::attach(block_.span());
  EXPECT_EQ(pop(), 2U);
}

TEST_F(LaneTest, MovesWithItsCompletions) {
  for (std::uint64_t i = 0; i < kDepth; ++i) ASSERT_TRUE(push(i));
  EXPECT_EQ(pop(), 0U);
  block_.word(kTailAt) = kDepth - 1;  // the producer has stopped before it counted the last
  TestBlock elsewhere(CompletionLane::octets_for(kDepth));
  CompletionLane moved = lane_.move_to(elsewhere.span());
  EXPECT_EQ(moved.pushed(), kDepth);
  ASSERT_TRUE(push(77));  // the producer continues in the old block
  Completion got;
  for (std::uint64_t i = 1; i < kDepth; ++i) {
    ASSERT_TRUE(moved.pop(got));
    EXPECT_EQ(got.wr_id, i);
  }
  EXPECT_FALSE(moved.pop(got));
}

TEST_F(LaneTest, IsTheSameLaneInEveryView) {
  auto other = CompletionLane::attach(block_.span());
  ASSERT_TRUE(other.push(completion(7)));
  EXPECT_EQ(lane_.count(), 1U);
  EXPECT_EQ(pop(), 7U);
  EXPECT_EQ(other.count(), 0U);
}

TEST(CompletionLane, HasAPlaceForEveryDepthItIsMadeFor) {
  for (const std::uint32_t depth : {0U, 1U, 2U, 3U, 5U, 8U, 100U}) {
    SCOPED_TRACE(depth);
    TestBlock block(CompletionLane::octets_for(depth));
    auto lane = CompletionLane::create(block.span(), depth);
    EXPECT_GE(lane.depth(), depth);
    for (std::uint32_t i = 0; i < depth; ++i) EXPECT_TRUE(lane.push(completion(i)));
    Completion got;
    for (std::uint32_t i = 0; i < depth; ++i) {
      ASSERT_TRUE(lane.pop(got));
      EXPECT_EQ(got.wr_id, i);
    }
  }
}

TEST(CompletionLane, CarriesWholeCompletionsFromThreadToThread) {
  constexpr std::uint64_t kCount = 5'000;
  TestBlock block(CompletionLane::octets_for(32));
  auto lane = CompletionLane::create(block.span(), 32);
  std::thread producer([producer_end = CompletionLane::attach(block.span())]() mutable {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      Completion made = completion(i);
      made.timestamp = ~i;
      while (!producer_end.push(made)) std::this_thread::yield();
    }
  });
  for (std::uint64_t i = 0; i < kCount; ++i) {
    Completion got;
    while (!lane.pop(got)) std::this_thread::yield();
    ASSERT_EQ(got.wr_id, i);
    ASSERT_EQ(got.timestamp, ~i);
  }
  producer.join();
  EXPECT_EQ(lane.count(), 0U);
}

}  // namespace
}  // namespace verbatim::transport
