// SPDX-License-Identifier: Apache-2.0
#include "base/occupancy.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>

namespace verbatim {
namespace {

TEST(Occupancy, ZeroedMemoryIsAnEmptyOne) {
  Occupancy occupancy;
  std::memset(static_cast<void*>(&occupancy), 0, sizeof occupancy);
  EXPECT_FALSE(Occupancy::is_inside(occupancy.snapshot()));
  EXPECT_TRUE(occupancy.has_left(occupancy.snapshot()));
}

TEST(Occupancy, IsOddInsideAndChangesWithEveryVisit) {
  for (const Fencing fencing : {Fencing::kFenced, Fencing::kExpedited}) {
    Occupancy occupancy;
    occupancy.enter(fencing);
    const auto first = occupancy.snapshot();
    EXPECT_TRUE(Occupancy::is_inside(first));
    EXPECT_FALSE(occupancy.has_left(first));
    occupancy.leave(fencing);
    EXPECT_TRUE(occupancy.has_left(first));
    occupancy.enter(fencing);
    EXPECT_TRUE(occupancy.has_left(first)) << "the visit that began later is another one";
    EXPECT_FALSE(occupancy.has_left(occupancy.snapshot()));
    occupancy.leave(fencing);
  }
}

TEST(Occupancy, AVisitEndsWithItsScope) {
  Occupancy occupancy;
  {
    const ScopedVisit visit(occupancy, Fencing::kExpedited);
    EXPECT_TRUE(Occupancy::is_inside(occupancy.snapshot()));
  }
  EXPECT_FALSE(Occupancy::is_inside(occupancy.snapshot()));
}

TEST(Occupancy, ADeadRequesterIsPutOutside) {
  Occupancy occupancy;
  occupancy.enter(Fencing::kExpedited);
  const auto before = occupancy.snapshot();
  occupancy.vacate();
  EXPECT_TRUE(occupancy.has_left(before));
  EXPECT_FALSE(Occupancy::is_inside(occupancy.snapshot()));
  const auto outside = occupancy.snapshot();
  occupancy.vacate();
  EXPECT_EQ(occupancy.snapshot(), outside) << "a requester that is outside stays outside";
}

TEST(Quiesce, CallsTheBarrierBeforeItLooksAndAfterTheLastHasLeft) {
  std::array<Occupancy, 3> visitors;
  visitors[1].enter(Fencing::kExpedited);
  std::string story;
  const bool all = quiesce(
      visitors, [&] { story += "barrier "; },
      [&](Occupancy& inside) {
        story += "wait ";
        EXPECT_EQ(&inside, &visitors[1]);
        if (story == "barrier wait wait ") inside.leave(Fencing::kExpedited);
        return true;
      });
  EXPECT_TRUE(all);
  EXPECT_EQ(story, "barrier wait wait barrier ");
}

TEST(Quiesce, DoesNotWaitForAVisitThatBeganLater) {
  std::array<Occupancy, 1> visitor;
  visitor[0].enter(Fencing::kExpedited);
  int waits = 0;
  EXPECT_TRUE(quiesce(
      visitor, [] {},
      [&](Occupancy& inside) {
        inside.leave(Fencing::kExpedited);
        inside.enter(Fencing::kExpedited);
        return ++waits < 10;
      }));
  EXPECT_EQ(waits, 1);
}

TEST(Quiesce, SkipsARequesterThatTheCallerGivesUpAndWaitsForTheOthers) {
  std::array<Occupancy, 2> visitors;
  visitors[0].enter(Fencing::kExpedited);
  visitors[1].enter(Fencing::kExpedited);
  int barriers = 0;
  EXPECT_FALSE(quiesce(
      visitors, [&] { ++barriers; },
      [&](Occupancy& inside) {
        if (&inside == visitors.data()) return false;
        inside.leave(Fencing::kExpedited);
        return true;
      }));
  EXPECT_EQ(barriers, 2);
  EXPECT_FALSE(Occupancy::is_inside(visitors[1].snapshot()));
}

// Two real threads, with fences of their own, so that the thread sanitizer can check them. `target`
// is plain memory. The requester writes it while `live` allows it, and the owner afterwards.
TEST(Quiesce, NoRequesterWritesToWhatWasTakenAway) {
  constexpr std::uint64_t kRounds = 200;  // in each, the requester may have to wait for a processor
  Occupancy occupancy;
  std::atomic<bool> live = false;
  std::atomic<bool> done = false;
  std::array<std::uint64_t, 8> target{};
  std::thread requester([&] {
    for (std::uint64_t i = 1; !done.load(std::memory_order_relaxed); ++i) {
      const ScopedVisit visit(occupancy, Fencing::kFenced);
      if (!live.load(std::memory_order_acquire)) continue;
      for (auto& word : target) word = i;
    }
  });
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    live.store(true, std::memory_order_release);
    if (round % 2 == 0) std::this_thread::yield();
    live.store(false, std::memory_order_relaxed);
    EXPECT_TRUE(quiesce(std::span(&occupancy, 1), full_fence, [](Occupancy&) {
      std::this_thread::yield();
      return true;
    }));
    const std::uint64_t last = target[0];
    for (auto& word : target) {
      EXPECT_EQ(word, last) << "half of a visit";
      word = 0;
    }
  }
  done.store(true, std::memory_order_relaxed);
  requester.join();
}

}  // namespace
}  // namespace verbatim
