// SPDX-License-Identifier: Apache-2.0
#include "transport/completion_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "transport/test_block.h"

namespace verbatim::transport {
namespace {

/// A completion queue and the lanes that feed it.
class TestQueue {
 public:
  static constexpr std::uint32_t kDepth = 8;  // of each lane

  explicit TestQueue(std::uint32_t lane_limit = 4, std::uint32_t capacity = 64)
      : TestQueue(lane_limit, capacity, lane_limit) {}
  TestQueue(std::uint32_t lane_limit, std::uint32_t capacity, std::uint32_t hint_count)
      : board_block_(CompletionBoard::octets_for(hint_count)),
        board_(CompletionBoard::create(board_block_.span(), hint_count)),
        lanes_(lane_limit),
        queue_(board_, lanes_, capacity) {}

  CompletionLane lane(std::uint32_t depth = kDepth) {
    blocks_.emplace_back(CompletionLane::octets_for(depth));
    return CompletionLane::create(blocks_.back().span(), depth);
  }
  CompletionPort attach(std::uint32_t depth = kDepth) { return *queue_.attach(lane(depth)); }

  /// Up to `most` completions, by work request.
  std::vector<std::uint64_t> poll(std::size_t most) {
    std::vector<Completion> into(most);
    into.resize(queue_.poll(into));
    std::vector<std::uint64_t> ids;
    for (const Completion& got : into) ids.push_back(got.wr_id);
    return ids;
  }
  void grow(std::size_t places) {
    lanes_.resize(places);
    queue_.use_places(lanes_);
  }
  CompletionQueue& queue() { return queue_; }
  CompletionBoard& board() { return board_; }

 private:
  TestBlock board_block_;
  CompletionBoard board_;
  std::vector<CompletionLane> lanes_;
  std::deque<TestBlock> blocks_;
  CompletionQueue queue_;
};

using Ids = std::vector<std::uint64_t>;

bool publish(CompletionPort& port, std::uint64_t wr_id) { return port.publish(completion(wr_id)); }

Completion solicited(std::uint64_t wr_id) {
  Completion made = completion(wr_id);
  made.solicited = true;
  return made;
}
Completion failed(std::uint64_t wr_id) {
  Completion made = completion(wr_id);
  made.status = WcStatus::kFlushed;
  return made;
}

// ---- The time

TEST(CompletionQueue, StampsEachCompletionOnce) {
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

TEST(CompletionQueue, WithoutLanesHasNothing) {
  TestQueue test;
  EXPECT_TRUE(test.poll(4).empty());
  EXPECT_EQ(test.queue().waiting_count(), 0U);
  EXPECT_FALSE(test.queue().take_event());
}

TEST(CompletionQueue, CollectsWhatItsLanesPublish) {
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

TEST(CompletionQueue, APollOfNothingTakesNothing) {
  TestQueue test;
  auto port = test.attach();
  ASSERT_TRUE(publish(port, 1));
  EXPECT_EQ(test.queue().poll({}), 0U);
  EXPECT_EQ(test.queue().waiting_count(), 1U);
  EXPECT_EQ(test.poll(1), Ids{1});
}

TEST(CompletionQueue, TakesNoMoreThanAskedFor) {
  TestQueue test;
  auto port = test.attach();
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(publish(port, i));
  EXPECT_EQ(test.poll(2), (Ids{0, 1}));
  EXPECT_EQ(test.poll(2), (Ids{2, 3}));
  EXPECT_EQ(test.poll(2), (Ids{4}));
}

TEST(CompletionQueue, OrderHoldsWithinEachLane) {
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

/// How many single polls it takes until `quiet` is served while `busy` never runs dry.
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

TEST(CompletionQueue, ABusyLaneDoesNotStarveAnother) {
  TestQueue test;
  auto busy = test.attach();
  auto quiet = test.attach();
  for (int round = 0; round < 3; ++round) {
    EXPECT_LE(polls_until_served(test, busy, quiet, 10), 2);
    EXPECT_LE(polls_until_served(test, quiet, busy, 10), 2);
  }
}

TEST(CompletionQueue, EveryLaneIsServedInOneRound) {
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

// Around the edges of the words that the hints are read by.
TEST(CompletionQueue, FindsACompletionInAnyOfManyLanes) {
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

// ---- Hints

TEST(CompletionQueue, AHintStaysUpWhenItsLaneRunsDry) {
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

TEST(CompletionQueue, AHintWithoutACompletionIsHarmless) {
  TestQueue test;
  auto port = test.attach();
  test.board().hint(port.index()).store(1);
  EXPECT_TRUE(test.poll(1).empty());
  ASSERT_TRUE(publish(port, 1));
  EXPECT_EQ(test.poll(1), Ids{1});
}

TEST(CompletionQueue, SeveralLanesMayShareAHint) {
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

TEST(CompletionQueue, AHintIsOnlyLoweredWhenAllItsLanesAreDry) {
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

TEST(CompletionQueue, LanesThatComeAndGoLeaveAHintToTheOthers) {
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

TEST(CompletionQueue, LanesOfOneHintAreServedInTurn) {
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

TEST(CompletionQueue, PlacesForLanesMayBecomeMore) {
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

/// Lanes that have had a completion each, and have none now.
std::vector<CompletionPort> dry_lanes(TestQueue& test, std::uint32_t count) {
  std::vector<CompletionPort> ports;
  for (std::uint32_t i = 0; i < count; ++i) ports.push_back(test.attach());
  for (std::uint32_t i = 0; i < count; ++i) EXPECT_TRUE(publish(ports[i], i));
  EXPECT_EQ(test.poll(count + 1).size(), count);
  EXPECT_TRUE(test.poll(1).empty());
  return ports;
}

TEST(CompletionQueue, LowersTheHintsOfManyDryLanes) {
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

TEST(CompletionQueue, PutsUpWithAFewHintsOfDryLanes) {
  constexpr std::uint32_t kLanes = 20;
  TestQueue test(kLanes, 4096);
  auto ports = dry_lanes(test, kLanes);
  EXPECT_FALSE(test.queue().has_stale_hints());
  // Also when a poll that collects comes by them again and again.
  for (std::uint64_t i = 0; i < TestQueue::kDepth; ++i) {
    ASSERT_TRUE(publish(ports[0], i));
    ASSERT_TRUE(publish(ports[kLanes / 2], i));
  }
  EXPECT_EQ(test.poll(100).size(), 2 * TestQueue::kDepth);
  EXPECT_FALSE(test.queue().has_stale_hints());
}

// Looking at them is what an idle program would wait for when the next completion comes.
TEST(CompletionQueue, LowersAFewHintsWhenThereIsNothingElseToDo) {
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

// In the end all of them, however many there are.
TEST(CompletionQueue, LowersNoMoreHintsAtOnceThanItCanLookAfter) {
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

// A producer that looked at its hint just before it was lowered.
TEST(CompletionQueue, FindsWhatWasPublishedWhileItsHintWasLowered) {
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

// A peer that was stopped for long may still publish when the owner has long taken the lane away.
TEST(CompletionQueue, LowersTheHintOfAStraggler) {
  constexpr std::uint32_t kLanes = 100;
  TestQueue test(kLanes, 4096);
  auto ports = dry_lanes(test, kLanes);
  test.queue().detach(ports[5]);
  (void)publish(ports[5], 1);
  EXPECT_TRUE(test.poll(1).empty());
  test.queue().lower_hints();
  EXPECT_EQ(test.board().hint(ports[5].index()).load(), 0);
}

// ---- Lanes come and go

TEST(CompletionQueue, ALaneThatIsGoneTakesItsCompletionsAlong) {
  TestQueue test;
  auto gone = test.attach();
  auto stays = test.attach();
  ASSERT_TRUE(publish(gone, 1));
  ASSERT_TRUE(publish(stays, 2));
  test.queue().detach(gone);
  EXPECT_EQ(test.queue().waiting_count(), 1U);
  EXPECT_EQ(test.poll(8), Ids{2});
}

TEST(CompletionQueue, WhatIsDiscardedIsOneLanesAndTheLaneGoesOn) {
  TestQueue test;
  auto reset = test.attach();
  auto other = test.attach();
  ASSERT_TRUE(publish(reset, 1));
  ASSERT_TRUE(publish(other, 2));
  test.queue().discard(reset);
  EXPECT_EQ(test.poll(8), Ids{2});
  ASSERT_TRUE(publish(reset, 3));
  EXPECT_EQ(test.poll(8), Ids{3});
}

TEST(CompletionQueue, ALaneThatIsDiscardedGoesOnEmpty) {
  TestQueue test;
  auto reset = test.attach();
  auto other = test.attach();
  for (std::uint64_t i = 0; i < TestQueue::kDepth; ++i) ASSERT_TRUE(publish(reset, i));
  ASSERT_TRUE(publish(other, 100));
  test.queue().discard(reset);
  EXPECT_EQ(reset.uncollected(), 0U);
  EXPECT_EQ(test.poll(16), Ids{100});
  ASSERT_TRUE(publish(reset, 7));
  EXPECT_EQ(test.poll(16), Ids{7});
}

TEST(CompletionQueue, AFreedPlaceServesTheNextLane) {
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

TEST(CompletionQueue, LanesMayGoInAnyOrder) {
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

// A peer that was stopped for long may still publish when the owner has long taken the lane away.
TEST(CompletionQueue, SurvivesAStragglerOnALaneThatIsGone) {
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

// ---- Arming (IBA Vol 1, 11.4.2.2)

// A completion whose producer did not see the arming is found by the poll that follows.
TEST(CompletionQueue, CallsTheBarrierWhenItIsArmedAndNotWhenItWasAlready) {
  TestQueue test;
  static int barriers;
  barriers = 0;
  const Barrier count = []() noexcept { ++barriers; };
  test.queue().arm(Arming::kSolicited, count);
  EXPECT_EQ(barriers, 1);
  test.queue().arm(Arming::kSolicited, count);
  EXPECT_EQ(barriers, 1);
  test.queue().arm(Arming::kAny, count);
  EXPECT_EQ(barriers, 2);
  static CompletionBoard board;
  board = test.board();
  board.armed().store(0);
  test.queue().arm(Arming::kAny, []() noexcept {
    EXPECT_EQ(board.armed().load(), static_cast<std::uint32_t>(Arming::kAny))
        << "armed, then fenced";
  });
}

TEST(CompletionQueue, AnArmedQueueFiresOnce) {
  TestQueue test;
  auto port = test.attach();
  test.queue().arm(Arming::kAny);
  EXPECT_FALSE(test.queue().take_event());
  ASSERT_TRUE(publish(port, 1));
  ASSERT_TRUE(publish(port, 2));
  EXPECT_TRUE(test.queue().take_event());
  EXPECT_FALSE(test.queue().take_event());
  ASSERT_TRUE(publish(port, 3));
  EXPECT_FALSE(test.queue().take_event());
}

TEST(CompletionQueue, AnUnarmedQueueNeverFires) {
  TestQueue test;
  auto port = test.attach();
  ASSERT_TRUE(port.publish(solicited(1)));
  ASSERT_TRUE(port.publish(failed(2)));
  EXPECT_FALSE(test.queue().take_event());
}

TEST(CompletionQueue, WhatWaitsAlreadyDoesNotFire) {
  TestQueue test;
  auto port = test.attach();
  ASSERT_TRUE(publish(port, 1));
  test.queue().arm(Arming::kAny);
  EXPECT_FALSE(test.queue().take_event());
  EXPECT_EQ(test.poll(1), Ids{1});
  EXPECT_FALSE(test.queue().take_event());
  ASSERT_TRUE(publish(port, 2));
  EXPECT_TRUE(test.queue().take_event());
}

TEST(CompletionQueue, ForSolicitedCompletionsOthersDoNotFire) {
  TestQueue test;
  auto port = test.attach();
  test.queue().arm(Arming::kSolicited);
  ASSERT_TRUE(publish(port, 1));
  EXPECT_FALSE(test.queue().take_event());
  ASSERT_TRUE(port.publish(solicited(2)));
  EXPECT_TRUE(test.queue().take_event());
  ASSERT_TRUE(port.publish(solicited(3)));
  EXPECT_FALSE(test.queue().take_event());
}

TEST(CompletionQueue, AFailureIsAlwaysSolicited) {
  TestQueue test;
  auto port = test.attach();
  test.queue().arm(Arming::kSolicited);
  ASSERT_TRUE(port.publish(failed(1)));
  EXPECT_TRUE(test.queue().take_event());
}

TEST(CompletionQueue, ArmingForEverythingIsNotWeakened) {
  TestQueue test;
  auto port = test.attach();
  test.queue().arm(Arming::kAny);
  test.queue().arm(Arming::kSolicited);
  ASSERT_TRUE(publish(port, 1));
  EXPECT_TRUE(test.queue().take_event());
}

TEST(CompletionQueue, ArmingForSolicitedIsWidened) {
  TestQueue test;
  auto port = test.attach();
  test.queue().arm(Arming::kSolicited);
  test.queue().arm(Arming::kAny);
  ASSERT_TRUE(publish(port, 1));
  EXPECT_TRUE(test.queue().take_event());
  EXPECT_FALSE(test.queue().take_event());
}

TEST(CompletionQueue, ArmingTwiceIsOneEvent) {
  TestQueue test;
  auto port = test.attach();
  test.queue().arm(Arming::kAny);
  test.queue().arm(Arming::kAny);
  ASSERT_TRUE(publish(port, 1));
  ASSERT_TRUE(publish(port, 2));
  EXPECT_TRUE(test.queue().take_event());
  EXPECT_FALSE(test.queue().take_event());
}

TEST(CompletionQueue, EachArmingThatFiredIsAnEventOfItsOwn) {
  TestQueue test;
  auto port = test.attach();
  for (std::uint64_t i = 0; i < 3; ++i) {
    test.queue().arm(Arming::kAny);
    ASSERT_TRUE(publish(port, i));
  }
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(test.queue().take_event()) << i;
  EXPECT_FALSE(test.queue().take_event());
}

TEST(CompletionQueue, AnyLaneFiresTheOneEvent) {
  TestQueue test;
  auto a = test.attach();
  auto b = test.attach();
  test.queue().arm(Arming::kAny);
  ASSERT_TRUE(publish(b, 1));
  ASSERT_TRUE(publish(a, 2));
  EXPECT_TRUE(test.queue().take_event());
  EXPECT_FALSE(test.queue().take_event());
}

/// A producer that died at some point of publish(), which its lane was never told the end of.
TEST(CompletionQueue, WhoWaitsIsToldWhatADeadProducerDidNotSay) {
  for (const bool had_disarmed : {false, true}) {
    TestQueue test;
    auto port = test.attach();
    test.queue().arm(Arming::kAny);
    CompletionLane lane = port.lane();
    ASSERT_TRUE(lane.put(completion(1)));
    if (had_disarmed) test.board().armed().store(0);
    EXPECT_FALSE(test.queue().take_event());
    port.settle();
    EXPECT_TRUE(test.queue().take_event()) << had_disarmed;
    EXPECT_EQ(port.published(), 1U);
    EXPECT_EQ(test.poll(2), Ids{1});
    port.settle();
    EXPECT_FALSE(test.queue().take_event()) << "once";
  }
}

// ---- Room

TEST(CompletionQueue, AProducerKnowsItsRoom) {
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

TEST(CompletionQueue, AProducerKnowsWhenTooManyWait) {
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

TEST(CompletionQueue, IsResizedButNotBelowWhatWaits) {
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

TEST(CompletionQueue, OverrunsWhenMoreWaitsThanWasAskedFor) {
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

TEST(CompletionQueue, ALaneWithoutAPlaceSaysSo) {
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

TEST(CompletionQueue, CollectsEverythingFromProducersInOtherThreads) {
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

// Both sides fence: a completion that is published while its hint is lowered is not lost.
TEST(CompletionQueue, LosesNothingWhileHintsAreLowered) {
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
        // One at a time, so that the lane runs dry, and no other one brings the hint back.
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

TEST(CompletionQueue, NeverFiresMoreOftenThanItWasArmed) {
  constexpr std::uint64_t kCount = 2'000;
  TestQueue test;
  std::array ports{test.attach(64), test.attach(64)};
  std::atomic<int> running = 2;
  std::vector<std::thread> producers;
  for (auto& port : ports) {
    producers.emplace_back([port, &running]() mutable {
      for (std::uint64_t n = 0; n < kCount; ++n) {
        while (!publish(port, n)) std::this_thread::yield();
      }
      --running;
    });
  }
  std::uint64_t armed = 0;
  std::uint64_t events = 0;
  while (running > 0) {
    test.queue().arm(Arming::kAny);
    ++armed;
    (void)test.poll(32);
    while (test.queue().take_event()) ++events;
  }
  for (auto& producer : producers) producer.join();
  while (test.queue().take_event()) ++events;
  EXPECT_LE(events, armed);
}

}  // namespace
}  // namespace verbatim::transport
