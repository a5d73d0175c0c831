// SPDX-License-Identifier: Apache-2.0
// The hints by which a completion queue finds the lanes that hold completions.
#include "transport/queues/completion_lanes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "transport/queues/test_completion_lanes.h"

namespace verbatim::transport {
namespace {

using namespace test;

TEST(CompletionLanes, AHintStaysUpWhenItsLaneRunsDry) {
  TestQueue test;
  auto port = test.attach();
  const auto hint = [&] { return test.board().hint(port.index()).load(); };
  EXPECT_EQ(hint(), 0);
  ASSERT_TRUE(publish(port, 1));
  EXPECT_EQ(hint(), 1);
  EXPECT_EQ(test.poll(2), (Ids{1}));
  EXPECT_TRUE(test.poll(2).empty());
  EXPECT_EQ(hint(), 1);
  EXPECT_FALSE(test.queue().has_stale_hints());
}

TEST(CompletionLanes, AHintWithoutACompletionIsHarmless) {
  TestQueue test;
  auto port = test.attach();
  test.board().hint(port.index()).store(1);
  EXPECT_TRUE(test.poll(1).empty());
  ASSERT_TRUE(publish(port, 1));
  EXPECT_EQ(test.poll(1), Ids{1});
}

TEST(CompletionLanes, SeveralLanesMayShareAHint) {
  constexpr std::uint32_t kHints = 16;
  for (const std::uint32_t count : {17U, 40U, 64U}) {
    TestQueue test(count, 4096, kHints);
    std::vector<CompletionPort> ports;
    for (std::uint32_t i = 0; i < count; ++i) ports.push_back(test.attach());
    EXPECT_FALSE(test.queue().attach(test.lane()).ok());
    for (std::uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(ports[i].index(), i);
      EXPECT_EQ(ports[i].hint(), i % kHints);
      ASSERT_TRUE(publish(ports[i], i));
      ASSERT_EQ(test.poll(2), Ids{i}) << i << " of " << count;
    }
    for (std::uint32_t i = 0; i < count; ++i) ASSERT_TRUE(publish(ports[i], i));
    EXPECT_EQ(test.queue().waiting_count(), count);
    test.queue().stamp(Instant::at(Duration(100)));
    std::vector<Completion> all(count + 1);
    all.resize(test.queue().poll(all));
    EXPECT_EQ(all.size(), count);
    for (const Completion& one : all) EXPECT_EQ(one.timestamp, 100U) << one.wr_id;
  }
}

TEST(CompletionLanes, AHintIsOnlyLoweredWhenAllItsLanesAreDry) {
  TestQueue test(4, 64, 1);
  auto first = test.attach();
  auto second = test.attach();
  ASSERT_TRUE(publish(first, 1));
  EXPECT_EQ(test.poll(2), Ids{1});
  ASSERT_TRUE(publish(second, 2));
  test.queue().lower_hints();
  EXPECT_EQ(test.poll(2), Ids{2});
  test.queue().lower_hints();
  EXPECT_EQ(test.board().hint(0).load(), 0);
  ASSERT_TRUE(publish(second, 3));
  EXPECT_EQ(test.poll(2), Ids{3});
}

TEST(CompletionLanes, AttachingAndDetachingALaneKeepsAHintThatOthersShare) {
  TestQueue test(4, 64, 1);
  auto first = test.attach();
  auto second = test.attach();
  ASSERT_TRUE(publish(first, 1));
  test.queue().detach(second);
  EXPECT_EQ(test.poll(2), Ids{1});
  ASSERT_TRUE(publish(first, 2));
  auto third = test.attach();
  EXPECT_EQ(third.index(), 1U);
  EXPECT_EQ(test.poll(2), Ids{2});
  ASSERT_TRUE(publish(third, 3));
  test.queue().detach(first);
  EXPECT_EQ(test.poll(2), Ids{3});
}

TEST(CompletionLanes, LanesOfOneHintAreServedInTurn) {
  TestQueue test(3, 64, 1);
  std::vector<CompletionPort> ports;
  for (std::uint32_t i = 0; i < 3; ++i) ports.push_back(test.attach());
  std::vector<int> served(3);
  for (int round = 0; round < 30; ++round) {
    for (std::uint32_t i = 0; i < 3; ++i) {
      while (ports[i].uncollected() < 4) ASSERT_TRUE(publish(ports[i], i));
    }
    const auto got = test.poll(1);
    ASSERT_EQ(got.size(), 1U);
    ++served[got[0]];
  }
  EXPECT_EQ(served, std::vector<int>(3, 10));
}

TEST(CompletionLanes, PlacesForLanesMayBecomeMore) {
  TestQueue test(2, 64, 8);
  auto first = test.attach();
  auto second = test.attach();
  ASSERT_TRUE(publish(first, 1) && publish(second, 2));
  test.grow(5);
  auto third = test.attach();
  EXPECT_EQ(third.index(), 2U);
  ASSERT_TRUE(publish(third, 3) && publish(first, 4));
  EXPECT_EQ(test.poll(8), (Ids{1, 4, 2, 3}));
}

/// Lanes that have had a completion each, and are empty now.
std::vector<CompletionPort> dry_lanes(TestQueue& test, std::uint32_t count) {
  std::vector<CompletionPort> ports;
  for (std::uint32_t i = 0; i < count; ++i) ports.push_back(test.attach());
  for (std::uint32_t i = 0; i < count; ++i) EXPECT_TRUE(publish(ports[i], i));
  EXPECT_EQ(test.poll(count + 1).size(), count);
  EXPECT_TRUE(test.poll(1).empty());
  return ports;
}

TEST(CompletionLanes, LowersTheHintsOfManyDryLanes) {
  constexpr std::uint32_t kLanes = 100;
  TestQueue test(kLanes, 4096);
  auto ports = dry_lanes(test, kLanes);
  ASSERT_TRUE(test.queue().has_stale_hints());
  ASSERT_TRUE(publish(ports[7], 1));
  test.queue().lower_hints();
  EXPECT_FALSE(test.queue().has_stale_hints());
  for (std::uint32_t i = 0; i < kLanes; ++i) {
    EXPECT_EQ(test.board().hint(ports[i].index()).load(), i == 7 ? 1 : 0) << i;
  }
  EXPECT_EQ(test.poll(2), Ids{1});
  for (auto& port : ports) ASSERT_TRUE(publish(port, 2));
  EXPECT_EQ(test.poll(kLanes).size(), kLanes);
}

TEST(CompletionLanes, ToleratesAFewHintsOfDryLanes) {
  constexpr std::uint32_t kLanes = 20;
  TestQueue test(kLanes, 4096);
  auto ports = dry_lanes(test, kLanes);
  EXPECT_FALSE(test.queue().has_stale_hints());
  // Also when a poll that collects passes them many times.
  for (std::uint64_t i = 0; i < TestQueue::kDepth; ++i) {
    ASSERT_TRUE(publish(ports[0], i));
    ASSERT_TRUE(publish(ports[kLanes / 2], i));
  }
  EXPECT_EQ(test.poll(100).size(), 2 * TestQueue::kDepth);
  EXPECT_FALSE(test.queue().has_stale_hints());
}

// Checking these hints would delay the next completion of an idle program.
TEST(CompletionLanes, LowersAFewHintsWhenPollsFindNothing) {
  for (const auto& [lanes, are_lowered] : {std::pair{20U, true}, std::pair{4U, false}}) {
    TestQueue test(lanes, 4096);
    auto ports = dry_lanes(test, lanes);
    for (int polls = 0; polls < 50; ++polls) EXPECT_TRUE(test.poll(1).empty());
    EXPECT_FALSE(test.queue().has_stale_hints());
    ASSERT_TRUE(publish(ports[0], 1));
    EXPECT_EQ(test.poll(1), Ids{1}) << "begins anew";
    for (int polls = 0; polls < 50; ++polls) EXPECT_TRUE(test.poll(1).empty());
    EXPECT_FALSE(test.queue().has_stale_hints());
    for (int polls = 0; polls < 50; ++polls) EXPECT_TRUE(test.poll(1).empty());
    EXPECT_EQ(test.queue().has_stale_hints(), are_lowered);
  }
}

// Several calls lower all of them, however many there are.
TEST(CompletionLanes, LowersALimitedNumberOfHintsAtOnce) {
  constexpr std::uint32_t kLanes = 2000;
  TestQueue test(kLanes, 4096);
  auto ports = dry_lanes(test, kLanes);
  for (int rounds = 0; rounds < 100 && test.queue().has_stale_hints(); ++rounds) {
    test.queue().lower_hints();
    EXPECT_TRUE(test.poll(1).empty());
  }
  EXPECT_FALSE(test.queue().has_stale_hints());
  ASSERT_TRUE(publish(ports[kLanes - 1], 1));
  EXPECT_EQ(test.poll(2), Ids{1});
}

// A producer that has read its hint just before it was lowered.
TEST(CompletionLanes, FindsWhatWasPublishedWhileItsHintWasLowered) {
  constexpr std::uint32_t kLanes = 100;
  TestQueue test(kLanes, 4096);
  static std::vector<CompletionPort> ports;
  ports = dry_lanes(test, kLanes);
  static CompletionBoard board;
  board = test.board();
  test.queue().lower_hints([]() noexcept {
    EXPECT_EQ(board.hint(3).load(), 0) << "lowered, then fenced";
    CompletionLane lane = ports[3].lane();
    EXPECT_TRUE(lane.push(completion(1)));
  });
  EXPECT_EQ(board.hint(3).load(), 1);
  EXPECT_EQ(test.poll(2), Ids{1});
}

// A peer that was stopped may still publish after the owner has detached the lane.
TEST(CompletionLanes, LowersTheHintOfADetachedLane) {
  constexpr std::uint32_t kLanes = 100;
  TestQueue test(kLanes, 4096);
  auto ports = dry_lanes(test, kLanes);
  test.queue().detach(ports[5]);
  (void)publish(ports[5], 1);
  EXPECT_TRUE(test.poll(1).empty());
  test.queue().lower_hints();
  EXPECT_EQ(test.board().hint(ports[5].index()).load(), 0);
}

// ---- Threads

// Both sides fence: a completion that is published while its hint is lowered is not lost.
TEST(CompletionLanes, LosesNothingWhileHintsAreLowered) {
  constexpr std::uint64_t kCount = 5'000;
  constexpr std::size_t kProducers = 3;
  TestQueue test;
  std::vector<CompletionPort> ports;
  for (std::size_t i = 0; i < kProducers; ++i) ports.push_back(test.attach());
  std::vector<std::thread> producers;
  std::atomic<bool> stopped = false;
  for (std::size_t i = 0; i < kProducers; ++i) {
    producers.emplace_back([port = ports[i], &stopped]() mutable {
      for (std::uint64_t n = 0; n < kCount && !stopped; ++n) {
        // One at a time, so that the lane becomes empty, and no later one raises the hint again.
        while (port.uncollected() > 0 && !stopped) std::this_thread::yield();
        ASSERT_TRUE(publish(port, n));
      }
    });
  }
  std::uint64_t total = 0;
  for (std::uint64_t idle = 0; total < kCount * kProducers && idle < 50'000'000; ++idle) {
    const std::size_t got = test.poll(1).size();
    if (got == 0) std::this_thread::yield();
    test.queue().lower_hints();
    total += got;
  }
  EXPECT_EQ(total, kCount * kProducers);
  stopped = true;
  for (auto& producer : producers) producer.join();
}

}  // namespace
}  // namespace verbatim::transport
