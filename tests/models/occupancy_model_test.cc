// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "models/weak_memory.h"

// base/occupancy.h: enter(), leave() and quiesce(), step by step. The owner takes `live`
// away; the requester uses `data` while `live` is set. For each step, the model has a mutant
// without that step, which must fail.
namespace verbatim::models {
namespace {

using enum Order;
using enum Test;

enum class Fencing { kExpedited, kFenced };

struct Steps {
  Fencing fencing = Fencing::kExpedited;
  bool first_barrier = true;
  bool second_barrier = true;
  bool enters_before_it_looks = true;
  Order leave = kRelaxed;
  bool enter_fence = false;
};

constexpr Steps kExpedited{};
constexpr Steps kFenced{.fencing = Fencing::kFenced, .leave = kRelease, .enter_fence = true};

void barrier(Thread& t, const Steps& steps) {
  steps.fencing == Fencing::kExpedited ? t.membarrier() : t.fence();
}

class Model {
 public:
  explicit Model(const Steps& steps, bool twice = false) : steps_(steps) {
    program_.thread([&](Thread& t) {
      visit(t, 0);
      if (twice) visit(t, 2);
    });
    program_.thread([&](Thread& t) { take_away(t); });
  }

  /// A store of the visit reaches memory that the owner already uses for something else.
  [[nodiscard]] bool can_store_late() const {
    return program_.can_end([&](const Outcome& end) { return end[data_] != kOwners; });
  }
  /// A load of the visit sees what the owner put there afterwards.
  [[nodiscard]] bool can_load_late() const {
    return program_.can_end([&](const Outcome& end) { return end[loaded_] == kOwners; });
  }
  /// The owner misses a store of a visit that was let in before.
  [[nodiscard]] bool can_miss_a_store() const {
    return program_.can_end(
        [&](const Outcome& end) { return end[granted_] == 1 && end[found_] != kVisitors; });
  }
  [[nodiscard]] bool can_get_stuck() const { return program_.can_get_stuck(); }
  [[nodiscard]] bool is_sound() const {
    return !can_store_late() && !can_load_late() && !can_miss_a_store() && !can_get_stuck();
  }

 private:
  static constexpr int kVisitors = 7;
  static constexpr int kOwners = 9;

  void visit(Thread& t, int before) {
    Reg granted;
    if (!steps_.enters_before_it_looks) granted = t.load(live_);
    t.store(count_, before + 1);
    if (steps_.enter_fence) t.fence();
    if (steps_.enters_before_it_looks) granted = t.load(live_);
    if (before == 0) granted_ = granted;
    t.when(granted, kEqual, 1, [&] {
      const Reg loaded = t.load(other_);
      if (before == 0) loaded_ = loaded;
      t.store(data_, kVisitors);
    });
    t.store(count_, before + 2, steps_.leave);
  }

  void take_away(Thread& t) {
    t.store(live_, 0);
    if (steps_.first_barrier) barrier(t, steps_);
    const Reg before = t.load(count_, kAcquire);
    for (const int inside : {1, 3}) {
      t.when(before, kEqual, inside, [&] { t.await(count_, kNotEqual, inside, kAcquire); });
    }
    if (steps_.second_barrier) barrier(t, steps_);
    found_ = t.load(data_);
    t.store(data_, kOwners);
    t.store(other_, kOwners);
  }

  Steps steps_;
  Program program_;
  Var live_ = program_.var(1);
  Var count_ = program_.var();
  Var data_ = program_.var();
  Var other_ = program_.var();
  Reg granted_{};
  Reg loaded_{};
  Reg found_{};
};

TEST(OccupancyModel, HoldsWithPlainStoresAndTwoMembarriers) {
  EXPECT_TRUE(Model(kExpedited).is_sound());
}

TEST(OccupancyModel, HoldsForARequesterThatComesBack) {
  EXPECT_TRUE(Model(kExpedited, true).is_sound());
}

TEST(OccupancyModel, HoldsWithFencesOfItsOwn) { EXPECT_TRUE(Model(kFenced).is_sound()); }

TEST(OccupancyModel, WithoutTheFirstBarrierAVisitGoesUnnoticed) {
  auto steps = kExpedited;
  steps.first_barrier = false;
  EXPECT_TRUE(Model(steps).can_store_late());
}

TEST(OccupancyModel, WithoutTheSecondBarrierDataIsLost) {
  auto steps = kExpedited;
  steps.second_barrier = false;
  EXPECT_TRUE(Model(steps).can_store_late());
  EXPECT_TRUE(Model(steps).can_miss_a_store());
  EXPECT_TRUE(Model(steps).can_load_late());
}

TEST(OccupancyModel, ARequesterThatLooksBeforeItEntersIsMissed) {
  auto steps = kExpedited;
  steps.enters_before_it_looks = false;
  EXPECT_TRUE(Model(steps).can_store_late());
}

TEST(OccupancyModel, APlainRequesterIsNotServedByFencesOfTheOwner) {
  auto steps = kExpedited;
  steps.fencing = Fencing::kFenced;
  EXPECT_TRUE(Model(steps).can_store_late());
}

TEST(OccupancyModel, FencedWithoutAReleaseOnLeavingLosesData) {
  auto steps = kFenced;
  steps.leave = kRelaxed;
  EXPECT_TRUE(Model(steps).can_store_late());
}

TEST(OccupancyModel, FencedWithoutTheFenceOnEnteringGoesUnnoticed) {
  auto steps = kFenced;
  steps.enter_fence = false;
  EXPECT_TRUE(Model(steps).can_store_late());
}

TEST(OccupancyModel, AFencedRequesterIsServedByMembarrierToo) {
  auto steps = kFenced;
  steps.fencing = Fencing::kExpedited;
  EXPECT_TRUE(Model(steps).is_sound());
}

}  // namespace
}  // namespace verbatim::models
