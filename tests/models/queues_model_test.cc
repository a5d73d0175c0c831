// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "models/weak_memory.h"

// The queues that two processes share, step by step: completion lanes and their hints, arming,
// receive queues and the counters of posting, key entries. Each model takes its orderings as
// arguments, so that a test can leave one out and see what fails.
namespace verbatim::models {
namespace {

using enum Order;
using enum Test;

// ---- transport/queues/completion_lane.h: a lane of one place, used twice; the counter is not used
// here

struct LaneOrders {
  Order push = kRelease;
  Order see_push = kAcquire;
  Order pop = kRelease;
  Order see_pop = kAcquire;
};

bool lane_mixes_completions(const LaneOrders& orders) {
  Program program;
  const Var serial = program.var();
  const Var head = program.var();
  const Var place = program.var();
  Reg first;
  Reg second;
  program.thread([&](Thread& t) {
    t.store(place, 1);
    t.store(serial, 1, orders.push);
    t.await(head, kEqual, 1, orders.see_pop);
    t.store(place, 2);
    t.store(serial, 2, orders.push);
  });
  program.thread([&](Thread& t) {
    t.await(serial, kEqual, 1, orders.see_push);
    first = t.load(place);
    t.store(head, 1, orders.pop);
    t.await(serial, kEqual, 2, orders.see_push);
    second = t.load(place);
  });
  EXPECT_FALSE(program.can_get_stuck());
  return program.can_end([&](const Outcome& end) { return end[first] != 1 || end[second] != 2; });
}

TEST(LaneModel, HandsEveryCompletionOver) { EXPECT_FALSE(lane_mixes_completions({})); }
TEST(LaneModel, NeedsTheReleaseOfPush) { EXPECT_TRUE(lane_mixes_completions({.push = kRelaxed})); }
TEST(LaneModel, NeedsTheAcquireThatSeesIt) {
  EXPECT_TRUE(lane_mixes_completions({.see_push = kRelaxed}));
}
TEST(LaneModel, NeedsTheReleaseOfPop) { EXPECT_TRUE(lane_mixes_completions({.pop = kRelaxed})); }

enum class Side { kNothing, kFence, kMembarrier };

void put(Thread& t, Side what) {
  if (what == Side::kFence) t.fence();
  if (what == Side::kMembarrier) t.membarrier();
}

// ---- transport/queues/completion_lanes.h: publish() raises the hint if it is down, and
// lower_hints() lowers that of a lane that ran dry

struct Lane {
  Var serial;
  Var hint;
};

/// publish(), without the check whether a thread has to be woken.
void publish(Thread& t, const Lane& lane, int number, Side producer, Order raise = kRelease,
             Side behind_raise = Side::kNothing) {
  t.store(lane.serial, number, kRelease);
  put(t, producer);
  const Reg is_up = t.load(lane.hint);
  t.when(is_up, kEqual, 0, [&] {
    t.store(lane.hint, 1, raise);
    put(t, behind_raise);
  });
}

/// lower_hints() for a lane that was dry behind completion `number`.
void lower(Thread& t, const Lane& lane, int number, Side owner, bool looks_again = true) {
  t.store(lane.hint, 0);
  put(t, owner);
  if (!looks_again) return;
  const Reg again = t.load(lane.serial, kAcquire);
  t.when(again, kNotEqual, number, [&] { t.store(lane.hint, 1); });
}

/// A lane that has run dry with its hint up: one more completion comes while the hint is lowered.
bool hint_is_lost(Side owner, Side producer, bool looks_again = true) {
  Program program;
  const Lane lane{.serial = program.var(), .hint = program.var(1)};
  program.thread([&](Thread& t) { publish(t, lane, 1, producer); });
  program.thread([&](Thread& t) {
    const Reg dry = t.load(lane.serial, kAcquire);
    t.when(dry, kEqual, 0, [&] { lower(t, lane, 0, owner, looks_again); });
  });
  return program.can_end([&](const Outcome& end) { return end[lane.hint] == 0; });
}

TEST(HintModel, NoCompletionIsLeftBehindALoweredHint) {
  EXPECT_FALSE(hint_is_lost(Side::kMembarrier, Side::kNothing));
  EXPECT_FALSE(hint_is_lost(Side::kMembarrier, Side::kFence));
  EXPECT_FALSE(hint_is_lost(Side::kFence, Side::kFence));
}
TEST(HintModel, NeedsABarrierThatReachesTheProducer) {
  EXPECT_TRUE(hint_is_lost(Side::kNothing, Side::kNothing));
  EXPECT_TRUE(hint_is_lost(Side::kFence, Side::kNothing));
  EXPECT_TRUE(hint_is_lost(Side::kNothing, Side::kFence));
}
TEST(HintModel, NeedsTheSecondLook) {
  EXPECT_TRUE(hint_is_lost(Side::kMembarrier, Side::kNothing, false));
}

/// A producer that finds its hint down and raises it, and then publishes another, against an owner
/// that collects the first one and lowers the hint.
bool second_is_lost(Side owner, Side producer, Order raise = kRelease) {
  Program program;
  const Lane lane{.serial = program.var(), .hint = program.var()};
  Reg first;
  program.thread([&](Thread& t) {
    for (int number = 1; number <= 2; ++number) publish(t, lane, number, producer, raise);
  });
  program.thread([&](Thread& t) {
    t.await(lane.hint, kEqual, 1, kAcquire);
    first = t.load(lane.serial, kAcquire);
    t.when(first, kEqual, 1, [&] { lower(t, lane, 1, owner); });
  });
  return program.can_end([&](const Outcome& end) {
    return end[first] == 0 || (end[first] == 1 && end[lane.hint] == 0);
  });
}

TEST(HintModel, ARaisedHintMeansThatThereIsSomething) {
  EXPECT_FALSE(second_is_lost(Side::kMembarrier, Side::kNothing));
  EXPECT_FALSE(second_is_lost(Side::kFence, Side::kFence));
  EXPECT_TRUE(second_is_lost(Side::kMembarrier, Side::kNothing, kRelaxed));
  EXPECT_TRUE(second_is_lost(Side::kFence, Side::kNothing));
}

// ---- transport/queues/completion_lanes.h: arm() against publish(); any "I sleep" against any
// wake-up

/// The owner arms, looks once more, and sleeps until the event if it finds nothing. It looks at the
/// lane if its hint is up.
bool sleeper_is_forgotten(Side owner, Side producer, bool is_up_before,
                          bool fences_behind_raise = true) {
  Program program;
  const Lane lane{.serial = program.var(), .hint = program.var(is_up_before ? 1 : 0)};
  const Var armed = program.var();
  const Var fired = program.var();
  program.thread([&](Thread& t) {
    publish(t, lane, 1, producer, kRelease, fences_behind_raise ? producer : Side::kNothing);
    const Reg is_armed = t.load(armed);
    t.when(is_armed, kEqual, 1, [&] {
      const Reg was = t.exchange(armed, 0, kAcquireRelease);
      t.when(was, kEqual, 1, [&] { t.store(fired, 1, kRelease); });
    });
  });
  program.thread([&](Thread& t) {
    t.compare_exchange(armed, 0, 1, kAcquireRelease);
    put(t, owner);
    const Reg looks = t.load(lane.hint, kAcquire);
    t.when(looks, kEqual, 0, [&] { t.await(fired, kEqual, 1, kAcquire); });
    t.when(looks, kEqual, 1, [&] {
      const Reg waiting = t.load(lane.serial, kAcquire);
      t.when(waiting, kEqual, 0, [&] { t.await(fired, kEqual, 1, kAcquire); });
    });
  });
  return program.can_get_stuck();
}

TEST(ArmingModel, WakesWithAMembarrierOfTheOwner) {
  EXPECT_FALSE(sleeper_is_forgotten(Side::kMembarrier, Side::kNothing, false));
  EXPECT_FALSE(sleeper_is_forgotten(Side::kMembarrier, Side::kNothing, true));
}
TEST(ArmingModel, WakesWithFencesOnBothSides) {
  for (const bool is_up : {false, true}) {
    EXPECT_FALSE(sleeper_is_forgotten(Side::kFence, Side::kFence, is_up));
    EXPECT_FALSE(sleeper_is_forgotten(Side::kMembarrier, Side::kFence, is_up));
  }
}
TEST(ArmingModel, ForgetsTheSleeperWithoutABarrier) {
  for (const bool is_up : {false, true}) {
    EXPECT_TRUE(sleeper_is_forgotten(Side::kNothing, Side::kNothing, is_up));
    EXPECT_TRUE(sleeper_is_forgotten(Side::kFence, Side::kNothing, is_up));
    EXPECT_TRUE(sleeper_is_forgotten(Side::kNothing, Side::kFence, is_up));
  }
}
TEST(ArmingModel, NeedsTheFenceBehindARaisedHint) {
  EXPECT_TRUE(sleeper_is_forgotten(Side::kFence, Side::kFence, false, false));
  EXPECT_FALSE(sleeper_is_forgotten(Side::kFence, Side::kFence, true, false));
}

// ---- transport/queues/receive_queue.h: what post() counts by

/// One receive is posted, and its consumer publishes the completion and moves the head. The sum of
/// what is posted and what is published and not collected is one at any time: is it also what the
/// owner computes?
bool head_and_lane_disagree(bool lane_first) {
  Program program;
  const Var head = program.var();
  const Var published = program.var();
  Reg saw_head;
  Reg saw_published;
  program.thread([&](Thread& t) {
    t.store(published, 1, kRelease);
    t.store(head, 1, kRelease);
  });
  program.thread([&](Thread& t) {
    if (lane_first) saw_published = t.load(published, kAcquire);
    saw_head = t.load(head, kAcquire);
    if (!lane_first) saw_published = t.load(published, kAcquire);
  });
  return program.can_end(
      [&](const Outcome& end) { return 1 - end[saw_head] + end[saw_published] != 1; });
}

TEST(ReceiveCountModel, TheHeadAndTheLaneCannotBeReadTogether) {
  EXPECT_TRUE(head_and_lane_disagree(true));
  EXPECT_TRUE(head_and_lane_disagree(false));
}

/// A cell is written again once its completion was collected, also before the head has moved.
bool cell_is_reused_too_early(Order push) {
  Program program;
  const Var entry = program.var(1);
  const Var tail = program.var(1);
  const Var head = program.var();
  const Var lane = program.var();
  const Var published = program.var();
  Reg scattered_by;
  Reg completed;
  program.thread([&](Thread& t) {
    t.await(tail, kNotEqual, 0, kAcquire);
    scattered_by = t.load(entry);
    t.store(lane, scattered_by);
    t.store(published, 1, push);
    t.store(head, 1, kRelease);
  });
  program.thread([&](Thread& t) {
    t.await(published, kEqual, 1, kAcquire);
    completed = t.load(lane);
    t.store(entry, 2);
    t.store(tail, 2, kRelease);
  });
  return program.can_end(
      [&](const Outcome& end) { return end[scattered_by] != 1 || end[completed] != 1; });
}

TEST(ReceiveCountModel, ACollectedCompletionFreesItsCell) {
  EXPECT_FALSE(cell_is_reused_too_early(kRelease));
  EXPECT_TRUE(cell_is_reused_too_early(kRelaxed));
}

// ---- memory/key_entry.h: withdraw(), fill(), publish() against read_live()

bool reader_mixes_bindings(Order store, Order load, bool checks_generation = true) {
  Program program;
  const Var generation = program.var();
  const Var live = program.var(1);
  const Var base = program.var(1);
  const Var octets = program.var(1);
  Reg before;
  Reg key;
  Reg saw_base;
  Reg saw_octets;
  Reg after;
  program.thread([&](Thread& t) {
    t.store(live, 0, store);
    t.store(generation, 1, store);
    t.store(base, 2, store);
    t.store(octets, 2, store);
    t.store(live, 1, store);  // the same key again, for other memory
  });
  program.thread([&](Thread& t) {
    before = t.load(generation, load);
    key = t.load(live, load);
    saw_base = t.load(base, load);
    saw_octets = t.load(octets, load);
    after = t.load(generation, load);
  });
  return program.can_end([&](const Outcome& end) {
    const bool granted = end[key] == 1 && (!checks_generation || end[before] == end[after]);
    return granted && end[saw_base] != end[saw_octets];
  });
}

TEST(KeyEntryModel, AReaderSeesOneBindingOrNone) {
  EXPECT_FALSE(reader_mixes_bindings(kRelease, kAcquire));
}
TEST(KeyEntryModel, NeedsReleasesAcquiresAndTheGeneration) {
  EXPECT_TRUE(reader_mixes_bindings(kRelaxed, kAcquire));
  EXPECT_TRUE(reader_mixes_bindings(kRelease, kRelaxed));
  EXPECT_TRUE(reader_mixes_bindings(kRelease, kAcquire, false));
}

/// Octets move into shared memory (1 in both) and back, while a thread reads whether they are
/// shared and where.
bool reader_looks_in_the_wrong_place(bool clears_the_place, bool place_first = true) {
  Program program;
  const Var backing = program.var();
  const Var place = program.var();
  Reg is_shared;
  Reg at;
  program.thread([&](Thread& t) {
    if (place_first) t.store(place, 1, kRelease);
    t.store(backing, 1, kRelease);
    if (!place_first) t.store(place, 1, kRelease);
    if (clears_the_place) t.store(place, 0, kRelease);
    t.store(backing, 0, kRelease);
  });
  program.thread([&](Thread& t) {
    is_shared = t.load(backing, kAcquire);
    at = t.load(place, kAcquire);
  });
  return program.can_end([&](const Outcome& end) { return end[is_shared] == 1 && end[at] != 1; });
}

TEST(KeyEntryModel, SharedOctetsAreWhereItSays) {
  EXPECT_FALSE(reader_looks_in_the_wrong_place(false));
  EXPECT_TRUE(reader_looks_in_the_wrong_place(true));
  EXPECT_TRUE(reader_looks_in_the_wrong_place(false, false));
}

}  // namespace
}  // namespace verbatim::models
