// SPDX-License-Identifier: Apache-2.0
// How a completion queue collects from its lanes. Its hints are in completion_lanes_hints_test.cc,
// its events in completion_lanes_arming_test.cc.
#include "transport/queues/completion_lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "transport/queues/test_completion_lanes.h"

namespace verbatim::transport {
namespace {

using namespace test;

// ---- The time

TEST(CompletionLanes, StampsEachCompletionOnce) {
  const auto at = [](std::int64_t nanoseconds) { return Instant::at(Duration(nanoseconds)); };
  TestQueue test;
  auto a = test.attach();
  auto b = test.attach();
  ASSERT_TRUE(publish(a, 1) && publish(a, 2));
  test.queue().stamp(at(100));
  ASSERT_TRUE(publish(a, 3) && publish(b, 4));
  test.queue().stamp(at(200));
  test.queue().stamp(at(300));
  std::array<Completion, 4> got;
  ASSERT_EQ(test.queue().poll(got), 4U);
  for (const Completion& completion : got) {
    EXPECT_EQ(completion.timestamp, completion.wr_id <= 2 ? 100U : 200U) << completion.wr_id;
  }
}

// ---- Collecting

TEST(CompletionLanes, WithoutLanesHasNothing) {
  TestQueue test;
  EXPECT_TRUE(test.poll(4).empty());
  EXPECT_EQ(test.queue().waiting_count(), 0U);
  EXPECT_FALSE(test.queue().take_event());
}

TEST(CompletionLanes, CollectsWhatItsLanesPublish) {
  TestQueue test;
  auto a = test.attach();
  auto b = test.attach();
  ASSERT_TRUE(publish(a, 1));
  ASSERT_TRUE(publish(b, 2));
  EXPECT_EQ(test.queue().waiting_count(), 2U);
  EXPECT_EQ(a.uncollected(), 1U);
  auto got = test.poll(8);
  std::ranges::sort(got);
  EXPECT_EQ(got, (Ids{1, 2}));
  EXPECT_EQ(a.uncollected(), 0U);
  EXPECT_TRUE(test.poll(8).empty());
}

TEST(CompletionLanes, APollOfNothingTakesNothing) {
  TestQueue test;
  auto port = test.attach();
  ASSERT_TRUE(publish(port, 1));
  EXPECT_EQ(test.queue().poll({}), 0U);
  EXPECT_EQ(test.queue().waiting_count(), 1U);
  EXPECT_EQ(test.poll(1), Ids{1});
}

TEST(CompletionLanes, TakesNoMoreThanAskedFor) {
  TestQueue test;
  auto port = test.attach();
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(publish(port, i));
  EXPECT_EQ(test.poll(2), (Ids{0, 1}));
  EXPECT_EQ(test.poll(2), (Ids{2, 3}));
  EXPECT_EQ(test.poll(2), (Ids{4}));
}

TEST(CompletionLanes, OrderHoldsWithinEachLane) {
  TestQueue test;
  std::array ports{test.attach(), test.attach(), test.attach()};
  std::array<std::uint64_t, 3> sent{};
  std::array<std::uint64_t, 3> collected{};
  for (std::size_t round = 0; round < 200; ++round) {
    for (std::size_t i = 0; i < 3; ++i) {
      if (round % (i + 1) != 0) continue;
      if (publish(ports[i], i * 1000 + sent[i])) ++sent[i];
    }
    for (const std::uint64_t id : test.poll(round % 4)) {
      ASSERT_EQ(id % 1000, collected[id / 1000]++);
    }
  }
  while (test.queue().waiting_count() > 0) {
    for (const std::uint64_t id : test.poll(3)) ASSERT_EQ(id % 1000, collected[id / 1000]++);
  }
  EXPECT_EQ(sent, collected);
}

/// How many single polls it takes until `quiet` is collected while `busy` is never empty.
int polls_until_served(TestQueue& test, CompletionPort& busy, CompletionPort& quiet, int most) {
  while (!test.poll(TestQueue::kDepth).empty()) {
  }
  EXPECT_TRUE(publish(quiet, 1000));
  std::uint64_t next = 0;
  for (int polls = 1; polls <= most; ++polls) {
    while (busy.uncollected() < TestQueue::kDepth) EXPECT_TRUE(publish(busy, next++));
    if (test.poll(1) == Ids{1000}) return polls;
  }
  return most + 1;
}

TEST(CompletionLanes, ABusyLaneDoesNotStarveAnother) {
  TestQueue test;
  auto busy = test.attach();
  auto quiet = test.attach();
  for (int round = 0; round < 3; ++round) {
    EXPECT_LE(polls_until_served(test, busy, quiet, 10), 2);
    EXPECT_LE(polls_until_served(test, quiet, busy, 10), 2);
  }
}

TEST(CompletionLanes, EveryLaneIsServedInOneRound) {
  constexpr std::uint32_t kLanes = 20;
  TestQueue test(kLanes);
  std::vector<CompletionPort> ports;
  for (std::uint32_t i = 0; i < kLanes; ++i) ports.push_back(test.attach());
  for (int round = 0; round < 3; ++round) {
    std::vector<int> served(kLanes);
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      while (ports[i].uncollected() < 4) ASSERT_TRUE(publish(ports[i], i));
    }
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      const auto got = test.poll(1);
      ASSERT_EQ(got.size(), 1U);
      ++served[got[0]];
    }
    EXPECT_EQ(served, std::vector<int>(kLanes, 1));
  }
}

// Hints are read eight at a time: lanes at the borders of these words are found as well.
TEST(CompletionLanes, FindsACompletionInAnyOfManyLanes) {
  for (const std::uint32_t count : {1U, 7U, 8U, 9U, 16U, 63U, 64U, 65U, 130U}) {
    TestQueue test(count, 4096);
    std::vector<CompletionPort> ports;
    for (std::uint32_t i = 0; i < count; ++i) ports.push_back(test.attach());
    for (std::uint32_t i = 0; i < count; ++i) EXPECT_EQ(ports[i].index(), i);
    EXPECT_FALSE(test.queue().attach(test.lane()).ok());
    for (std::uint32_t step = 1; step <= 3; step += 2) {
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t lane = i * step % count;
        ASSERT_TRUE(publish(ports[lane], lane));
        ASSERT_EQ(test.poll(2), Ids{lane}) << lane << " of " << count;
      }
    }
    for (std::uint32_t i = 0; i < count; ++i) ASSERT_TRUE(publish(ports[i], i));
    EXPECT_EQ(test.poll(4096).size(), count);
  }
}

// ---- Attaching and detaching

TEST(CompletionLanes, DetachingALaneDropsItsCompletions) {
  TestQueue test;
  auto gone = test.attach();
  auto stays = test.attach();
  ASSERT_TRUE(publish(gone, 1));
  ASSERT_TRUE(publish(stays, 2));
  test.queue().detach(gone);
  EXPECT_EQ(test.queue().waiting_count(), 1U);
  EXPECT_EQ(test.poll(8), Ids{2});
}

/// Discards a lane with so many completions, beside another lane.
void discard_beside_another(std::uint64_t count) {
  TestQueue test;
  auto reset = test.attach();
  auto other = test.attach();
  for (std::uint64_t i = 0; i < count; ++i) ASSERT_TRUE(publish(reset, i));
  ASSERT_TRUE(publish(other, 100));
  test.queue().discard(reset);
  EXPECT_EQ(reset.uncollected(), 0U);
  EXPECT_EQ(test.poll(16), Ids{100});
  ASSERT_TRUE(publish(reset, 7));
  EXPECT_EQ(test.poll(16), Ids{7});
}

TEST(CompletionLanes, DiscardingALaneLeavesTheOthers) { discard_beside_another(1); }

TEST(CompletionLanes, AFullLaneThatIsDiscardedGoesOnEmpty) {
  discard_beside_another(TestQueue::kDepth);
}

TEST(CompletionLanes, AFreedPlaceServesTheNextLane) {
  TestQueue test(3);
  std::array ports{test.attach(), test.attach(), test.attach()};
  EXPECT_EQ(test.queue().attach(test.lane()).error(), Errc::kNoMemory);
  ASSERT_TRUE(publish(ports[1], 1));
  test.queue().detach(ports[1]);
  auto fresh = test.attach();
  EXPECT_EQ(fresh.index(), ports[1].index());
  EXPECT_TRUE(test.poll(8).empty());
  ASSERT_TRUE(publish(fresh, 2));
  EXPECT_EQ(test.poll(8), Ids{2});
}

TEST(CompletionLanes, LanesMayBeDetachedInAnyOrder) {
  TestQueue test(9);
  std::vector<CompletionPort> ports;
  for (int i = 0; i < 9; ++i) ports.push_back(test.attach());
  for (const std::size_t gone : {8U, 0U, 4U, 7U, 6U}) {
    test.queue().detach(ports[gone]);
    for (const std::size_t left : {1U, 2U, 3U, 5U}) ASSERT_TRUE(publish(ports[left], left));
    auto got = test.poll(16);
    std::ranges::sort(got);
    EXPECT_EQ(got, (Ids{1, 2, 3, 5}));
  }
  for (const std::size_t gone : {1U, 2U, 3U, 5U}) test.queue().detach(ports[gone]);
  EXPECT_TRUE(test.poll(1).empty());
  auto fresh = test.attach();
  ASSERT_TRUE(publish(fresh, 1));
  EXPECT_EQ(test.poll(1), Ids{1});
}

// A peer that was stopped may still publish after the owner has detached the lane.
TEST(CompletionLanes, IgnoresWhatIsPublishedIntoADetachedLane) {
  TestQueue test;
  auto first = test.attach();
  auto gone = test.attach();
  auto last = test.attach();
  test.queue().detach(gone);
  (void)publish(gone, 1);
  EXPECT_TRUE(test.poll(4).empty());
  ASSERT_TRUE(publish(first, 2));
  ASSERT_TRUE(publish(last, 3));
  EXPECT_EQ(test.poll(4).size(), 2U);
  EXPECT_EQ(test.queue().waiting_count(), 0U);
}

// ---- Room

TEST(CompletionLanes, AProducerKnowsItsRoom) {
  TestQueue test;
  auto port = test.attach();
  std::uint64_t sent = 0;
  for (int round = 0; round < 5; ++round) {  // more than once around the lane
    while (port.room(TestQueue::kDepth) > 0) ASSERT_TRUE(publish(port, sent++));
    EXPECT_EQ(port.uncollected(), TestQueue::kDepth);
    EXPECT_EQ(port.room(TestQueue::kDepth), 0U);
    EXPECT_EQ(port.room(3), 0U) << "fewer places than wait";
    EXPECT_EQ(test.poll(3).size(), 3U);
    EXPECT_EQ(port.room(TestQueue::kDepth), 3U);
    EXPECT_EQ(test.poll(TestQueue::kDepth).size(), TestQueue::kDepth - 3);
    EXPECT_GE(port.room(TestQueue::kDepth), 3U) << "it need not look yet";
    EXPECT_EQ(port.room(1), 1U) << "it has to look";
  }
}

TEST(CompletionLanes, AProducerKnowsWhenTooManyWait) {
  TestQueue test;
  auto port = test.attach();
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(publish(port, i));
  EXPECT_FALSE(port.has_more_than(4));
  EXPECT_TRUE(port.has_more_than(3));
  EXPECT_FALSE(port.has_more_than(0xffff'ffff));
  EXPECT_EQ(test.poll(1).size(), 1U);
  EXPECT_FALSE(port.has_more_than(3));
  EXPECT_TRUE(port.has_more_than(2));
}

// ---- Capacity

TEST(CompletionLanes, IsResizedButNotBelowWhatWaits) {
  TestQueue test;
  auto a = test.attach();
  auto b = test.attach();
  EXPECT_EQ(test.queue().capacity(), 64U);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(publish(a, i));
  for (std::uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(publish(b, i));
  EXPECT_EQ(test.queue().resize(4).error(), Errc::kInvalidArgument);
  EXPECT_EQ(test.queue().capacity(), 64U);
  EXPECT_TRUE(test.queue().resize(5).ok());
  EXPECT_EQ(test.queue().capacity(), 5U);
  EXPECT_EQ(test.poll(8).size(), 5U);
  EXPECT_EQ(test.queue().resize(0).error(), Errc::kInvalidArgument);
  EXPECT_TRUE(test.queue().resize(1).ok());
}

TEST(CompletionLanes, OverrunsWhenMoreWaitsThanWasAskedFor) {
  TestQueue test(4, 3);
  auto a = test.attach();
  auto b = test.attach();
  ASSERT_TRUE(publish(a, 1));
  ASSERT_TRUE(publish(a, 2));
  ASSERT_TRUE(publish(b, 3));
  EXPECT_FALSE(test.queue().is_overrun());
  ASSERT_TRUE(publish(b, 4));
  EXPECT_TRUE(test.queue().is_overrun());
  EXPECT_EQ(test.poll(1).size(), 1U);
  EXPECT_FALSE(test.queue().is_overrun());
}

TEST(CompletionLanes, PublishingIntoAFullLaneFails) {
  TestQueue test;
  auto port = test.attach(2);
  test.queue().arm(Arming::kSolicited);
  ASSERT_TRUE(publish(port, 1));
  ASSERT_TRUE(publish(port, 2));
  EXPECT_FALSE(port.publish(solicited(3)));
  EXPECT_FALSE(test.queue().take_event()) << "what was not published fires nothing";
  EXPECT_EQ(test.poll(8), (Ids{1, 2}));
}

// ---- Threads

TEST(CompletionLanes, CollectsEverythingFromProducersInOtherThreads) {
  constexpr std::uint64_t kCount = 2'000;
  constexpr std::size_t kProducers = 3;
  TestQueue test;
  std::vector<CompletionPort> ports;
  for (std::size_t i = 0; i < kProducers; ++i) ports.push_back(test.attach(64));
  std::vector<std::thread> producers;
  for (std::size_t i = 0; i < kProducers; ++i) {
    producers.emplace_back([port = ports[i], i]() mutable {
      for (std::uint64_t n = 0; n < kCount; ++n) {
        while (!publish(port, i << 32 | n)) std::this_thread::yield();
      }
    });
  }
  std::array<std::uint64_t, kProducers> next{};
  std::uint64_t total = 0;
  while (total < kCount * kProducers) {
    const auto got = test.poll(32);
    if (got.empty()) std::this_thread::yield();
    for (const std::uint64_t id : got) ASSERT_EQ(id & 0xffff'ffff, next[id >> 32]++);
    total += got.size();
  }
  for (auto& producer : producers) producer.join();
  EXPECT_EQ(test.queue().waiting_count(), 0U);
}

}  // namespace
}  // namespace verbatim::transport
