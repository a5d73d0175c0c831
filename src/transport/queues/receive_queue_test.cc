// SPDX-License-Identifier: Apache-2.0
#include "transport/queues/receive_queue.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/pointer.h"
#include "transport/queues/test_block.h"

namespace verbatim::transport {
namespace {

// Where the counters lie in the block: each has a cache line of its own.
constexpr std::size_t kTailAt = 64;
constexpr std::size_t kHeadAt = 128;

/// A list of `count` elements that differs from all other lists.
std::vector<memory::Sge> list_for(std::uint64_t wr_id, std::uint32_t count) {
  std::vector<memory::Sge> list(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    list[i] = {.address = wr_id * 4096 + i,
               .octets = static_cast<std::uint32_t>(wr_id) + i,
               .lkey = wire::MemoryKey{i + 1}};
  }
  return list;
}

bool is_list_of(std::span<const memory::Sge> list, std::uint64_t wr_id) {
  const auto wanted = list_for(wr_id, static_cast<std::uint32_t>(list.size()));
  return std::ranges::equal(list, wanted, [](const memory::Sge& a, const memory::Sge& b) {
    return a.address == b.address && a.octets == b.octets && a.lkey == b.lkey;
  });
}

class ReceiveQueueTest : public testing::Test {
 protected:
  static constexpr ReceiveQueue::Limits kLimits{.depth = 4, .sge_limit = 3};

  Status post(std::uint64_t wr_id, std::uint32_t sge_count = 2, std::uint32_t uncollected = 0) {
    const auto list = list_for(wr_id, sge_count);
    return queue_.post({.wr_id = wr_id, .list = list}, popped() - uncollected);
  }
  /// How many receives were ever consumed. All completions are collected, unless a test differs.
  std::uint32_t popped() const { return queue_.posted() - queue_.posted_count(); }
  void expect_front(std::uint64_t wr_id, std::uint32_t sge_count = 2) {
    const ReceiveEntry* front = queue_.front();
    ASSERT_NE(front, nullptr);
    EXPECT_EQ(front->wr_id, wr_id);
    ASSERT_EQ(queue_.list_of(*front).size(), sge_count);
    EXPECT_TRUE(is_list_of(queue_.list_of(*front), wr_id));
  }

  TestBlock block_{ReceiveQueue::octets_for(kLimits)};
  ReceiveQueue queue_ = ReceiveQueue::create(block_.span(), kLimits);
};

TEST_F(ReceiveQueueTest, BeginsEmptyWhateverTheMemoryHeld) {
  EXPECT_TRUE(queue_.exists());
  EXPECT_FALSE(ReceiveQueue().exists());
  EXPECT_EQ(queue_.depth(), 4U);
  EXPECT_EQ(queue_.sge_limit(), 3U);
  EXPECT_EQ(queue_.posted_count(), 0U);
  EXPECT_EQ(queue_.front(), nullptr);
}

TEST_F(ReceiveQueueTest, GivesReceivesInTheOrderOfPosting) {
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(post(i).ok());
  EXPECT_EQ(queue_.posted_count(), 4U);
  for (std::uint64_t i = 0; i < 4; ++i) {
    expect_front(i);
    queue_.pop();
  }
  EXPECT_EQ(queue_.front(), nullptr);
}

TEST(ReceiveQueue, NeighboursDoNotShareALine) {
  constexpr ReceiveQueue::Limits kLimits{.depth = 8, .sge_limit = 1};
  TestBlock block(ReceiveQueue::octets_for(kLimits));
  ReceiveQueue queue = ReceiveQueue::create(block.span(), kLimits);
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(queue.post({.wr_id = i, .list = {}}, 0).ok());
  std::uintptr_t last = 0;
  for (std::uint64_t i = 0; i < 8; ++i, queue.pop()) {
    ASSERT_EQ(queue.front()->wr_id, i);
    const std::uintptr_t line = numeric_address(queue.front()) / 64;
    EXPECT_NE(line, last) << "receive " << i;
    last = line;
  }
}

TEST_F(ReceiveQueueTest, KeepsListsOfEveryLengthUpToTheLimit) {
  for (std::uint32_t count = 0; count <= 3; ++count) ASSERT_TRUE(post(10 + count, count).ok());
  for (std::uint32_t count = 0; count <= 3; ++count) {
    expect_front(10 + count, count);
    queue_.pop();
  }
  EXPECT_EQ(post(1, 4).error(), Errc::kInvalidArgument);
  EXPECT_EQ(queue_.posted_count(), 0U);
}

TEST_F(ReceiveQueueTest, IsFullAtItsDepth) {
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(post(i).ok());
  EXPECT_EQ(post(4).error(), Errc::kNoMemory);
  expect_front(0);
  queue_.pop();
  EXPECT_TRUE(post(4).ok());
  EXPECT_EQ(post(5).error(), Errc::kNoMemory);
}

TEST_F(ReceiveQueueTest, ADepthThatIsNoPowerOfTwoIsKept) {
  constexpr ReceiveQueue::Limits kOdd{.depth = 5, .sge_limit = 1};
  TestBlock block(ReceiveQueue::octets_for(kOdd));
  auto queue = ReceiveQueue::create(block.span(), kOdd);
  for (std::uint64_t round = 0; round < 7; ++round) {
    const auto collected = static_cast<std::uint32_t>(5 * round);
    for (std::uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(queue.post({.wr_id = i}, collected).ok());
    EXPECT_EQ(queue.post({.wr_id = 9}, collected).error(), Errc::kNoMemory);
    for (std::uint64_t i = 0; i < 5; ++i) {
      ASSERT_NE(queue.front(), nullptr);
      EXPECT_EQ(queue.front()->wr_id, i);
      queue.pop();
    }
  }
}

TEST_F(ReceiveQueueTest, AnUncollectedCompletionTakesAPlace) {
  EXPECT_EQ(post(0, 1, 4).error(), Errc::kNoMemory);
  EXPECT_TRUE(post(0, 1, 3).ok());
  EXPECT_EQ(post(1, 1, 3).error(), Errc::kNoMemory);
  EXPECT_TRUE(post(1, 1, 2).ok());
  EXPECT_EQ(queue_.posted_count(), 2U);
}

// The consumer runs beside the owner: it publishes a completion and moves the head after that.
TEST_F(ReceiveQueueTest, CountsAReceiveOnceAlsoWhileItIsBeingCompleted) {
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(post(i).ok());
  // One completion is published and collected; the head has yet to move.
  EXPECT_EQ(queue_.post({.wr_id = 4}, 0).error(), Errc::kNoMemory) << "not collected yet";
  EXPECT_TRUE(queue_.post({.wr_id = 4}, 1).ok()) << "collected: there is a place";
  EXPECT_EQ(queue_.post({.wr_id = 5}, 1).error(), Errc::kNoMemory);
  queue_.pop();
  EXPECT_EQ(queue_.post({.wr_id = 5}, 1).error(), Errc::kNoMemory) << "the move changes nothing";
  for (std::uint64_t i = 1; i < 5; ++i) {
    ASSERT_NE(queue_.front(), nullptr);
    EXPECT_EQ(queue_.front()->wr_id, i);
    queue_.pop();
  }
}

TEST_F(ReceiveQueueTest, AfterClearOnlyUncollectedCompletionsTakeAPlace) {
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(post(i).ok());
  queue_.pop();
  queue_.pop();  // two were completed, one of them collected
  queue_.clear(2);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(queue_.post({.wr_id = 10 + i}, 1).ok());
  EXPECT_EQ(queue_.post({.wr_id = 13}, 1).error(), Errc::kNoMemory);
  EXPECT_TRUE(queue_.post({.wr_id = 13}, 2).ok());
  EXPECT_EQ(queue_.post({.wr_id = 14}, 2).error(), Errc::kNoMemory);
  EXPECT_EQ(queue_.front()->wr_id, 10U);
}

TEST_F(ReceiveQueueTest, FinishesWhatADeadConsumerHadPublished) {
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(post(i).ok());
  queue_.pop();
  queue_.finish_pop(1);
  EXPECT_EQ(queue_.posted_count(), 2U) << "it had not published the second";
  queue_.finish_pop(2);
  EXPECT_EQ(queue_.posted_count(), 1U) << "it had published the second and not moved the head";
  queue_.finish_pop(2);
  EXPECT_EQ(queue_.front()->wr_id, 2U);
  queue_.clear(2);
  ASSERT_TRUE(queue_.post({.wr_id = 7}, 2).ok());
  queue_.finish_pop(2);
  EXPECT_EQ(queue_.posted_count(), 1U);
  queue_.finish_pop(3);
  EXPECT_EQ(queue_.posted_count(), 0U) << "counts go on behind what was cleared";
}

TEST_F(ReceiveQueueTest, WithoutDepthTakesNothing) {
  constexpr ReceiveQueue::Limits kNone{.depth = 0, .sge_limit = 0};
  TestBlock block(ReceiveQueue::octets_for(kNone));
  auto queue = ReceiveQueue::create(block.span(), kNone);
  EXPECT_EQ(queue.post({.wr_id = 1}, 0).error(), Errc::kNoMemory);
  EXPECT_EQ(queue.front(), nullptr);
}

TEST_F(ReceiveQueueTest, FrontDoesNotConsume) {
  ASSERT_TRUE(post(7).ok());
  expect_front(7);
  expect_front(7);
  EXPECT_EQ(queue_.posted_count(), 1U);
}

TEST_F(ReceiveQueueTest, ForgetsEverythingWhenCleared) {
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(post(i).ok());
  queue_.clear(0);
  EXPECT_EQ(queue_.posted_count(), 0U);
  EXPECT_EQ(queue_.front(), nullptr);
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(queue_.post({.wr_id = 20 + i}, 0).ok());
  expect_front(20, 0);
}

TEST_F(ReceiveQueueTest, CountersMayWrap) {
  ASSERT_TRUE(post(0).ok());
  queue_.pop();
  ASSERT_EQ(block_.word(kTailAt), 1U);
  ASSERT_EQ(block_.word(kHeadAt), 1U);
  block_.word(kTailAt) = block_.word(kHeadAt) = 0xffff'fffe;
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(post(i).ok());
  EXPECT_EQ(post(4).error(), Errc::kNoMemory);
  EXPECT_EQ(queue_.posted_count(), 4U);
  for (std::uint64_t i = 0; i < 4; ++i) {
    expect_front(i);
    queue_.pop();
  }
  EXPECT_EQ(block_.word(kHeadAt), 2U);
  EXPECT_EQ(queue_.front(), nullptr);
}

TEST_F(ReceiveQueueTest, IsTheSameQueueInEveryView) {
  auto peer = ReceiveQueue::attach(block_.span());
  ASSERT_TRUE(post(5, 3).ok());
  ASSERT_NE(peer.front(), nullptr);
  EXPECT_EQ(peer.front()->wr_id, 5U);
  EXPECT_TRUE(is_list_of(peer.list_of(*peer.front()), 5));
  peer.pop();
  EXPECT_EQ(queue_.posted_count(), 0U);
}

// The entry may lie in memory that a peer can write.
TEST_F(ReceiveQueueTest, NeverShowsAListLongerThanItsCell) {
  ASSERT_TRUE(post(5, 2).ok());
  const_cast<ReceiveEntry*>(queue_.front())->sge_count = 0xffff'ffff;
  EXPECT_EQ(queue_.list_of(*queue_.front()).size(), 3U);
}

TEST_F(ReceiveQueueTest, HandsWholeReceivesFromThreadToThread) {
  constexpr std::uint64_t kCount = 3'000;
  std::thread consumer([peer = ReceiveQueue::attach(block_.span())]() mutable {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      while (peer.front() == nullptr) std::this_thread::yield();
      ASSERT_EQ(peer.front()->wr_id, i);
      ASSERT_TRUE(is_list_of(peer.list_of(*peer.front()), i));
      peer.pop();
    }
  });
  for (std::uint64_t i = 0; i < kCount; ++i) {
    while (!post(i, static_cast<std::uint32_t>(i % 4)).ok()) std::this_thread::yield();
  }
  consumer.join();
  EXPECT_EQ(queue_.posted_count(), 0U);
}

}  // namespace
}  // namespace verbatim::transport
