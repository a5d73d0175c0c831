// SPDX-License-Identifier: Apache-2.0
#include "models/weak_memory.h"

#include <gtest/gtest.h>

// What the checker allows and forbids in the usual litmus tests of memory models. The
// expected answers are those of the Armv8 architecture with exclusives and `ldapr`.
namespace verbatim::models {
namespace {

using enum Order;
using enum Test;

enum class Between { kNothing, kFence, kMembarrier };

void put(Thread& t, Between what) {
  if (what == Between::kFence) t.fence();
  if (what == Between::kMembarrier) t.membarrier();
}

// ---- Store buffering: each stores to its own and looks at the other's

bool both_miss(Between first, Between second, Order store = kRelaxed, Order load = kRelaxed) {
  Program program;
  const Var x = program.var();
  const Var y = program.var();
  Reg saw_y;
  Reg saw_x;
  program.thread([&](Thread& t) {
    t.store(x, 1, store);
    put(t, first);
    saw_y = t.load(y, load);
  });
  program.thread([&](Thread& t) {
    t.store(y, 1, store);
    put(t, second);
    saw_x = t.load(x, load);
  });
  return program.can_end([&](const Outcome& end) { return end[saw_x] == 0 && end[saw_y] == 0; });
}

TEST(StoreBuffering, BothCanMissWithoutFences) {
  EXPECT_TRUE(both_miss(Between::kNothing, Between::kNothing));
  EXPECT_TRUE(both_miss(Between::kNothing, Between::kNothing, kRelease, kAcquire));
}
TEST(StoreBuffering, OneFenceIsNotEnough) {
  EXPECT_TRUE(both_miss(Between::kFence, Between::kNothing));
  EXPECT_TRUE(both_miss(Between::kNothing, Between::kFence));
}
TEST(StoreBuffering, TwoFencesAre) { EXPECT_FALSE(both_miss(Between::kFence, Between::kFence)); }
TEST(StoreBuffering, OneMembarrierIs) {
  EXPECT_FALSE(both_miss(Between::kMembarrier, Between::kNothing));
  EXPECT_FALSE(both_miss(Between::kNothing, Between::kMembarrier));
}
TEST(StoreBuffering, AnExchangeIsNoFence) {
  Program program;
  const Var x = program.var();
  const Var y = program.var();
  Reg saw_y;
  Reg saw_x;
  program.thread([&](Thread& t) {
    t.exchange(x, 1, kAcquireRelease);
    saw_y = t.load(y);
  });
  program.thread([&](Thread& t) {
    t.exchange(y, 1, kAcquireRelease);
    saw_x = t.load(x);
  });
  EXPECT_TRUE(program.can_end([&](const Outcome& e) { return e[saw_x] == 0 && e[saw_y] == 0; }));
}
TEST(StoreBuffering, AThreadSeesItsOwnStoresBeforeOthersDo) {
  Program program;
  const Var x = program.var();
  const Var y = program.var();
  Reg own;
  Reg saw_y;
  Reg saw_x;
  program.thread([&](Thread& t) {
    t.store(x, 1);
    own = t.load(x, kAcquire);
    saw_y = t.load(y);
  });
  program.thread([&](Thread& t) {
    t.store(y, 1);
    t.fence();
    saw_x = t.load(x);
  });
  EXPECT_FALSE(program.can_end([&](const Outcome& e) { return e[own] != 1; }));
  EXPECT_TRUE(program.can_end([&](const Outcome& e) { return e[saw_x] == 0 && e[saw_y] == 0; }));
}

// ---- Message passing: data, then a flag

bool stale_data(Order store, Order load, Between in_writer = Between::kNothing,
                Between in_reader = Between::kNothing) {
  Program program;
  const Var data = program.var();
  const Var flag = program.var();
  Reg saw_flag;
  Reg saw_data;
  program.thread([&](Thread& t) {
    t.store(data, 1);
    put(t, in_writer);
    t.store(flag, 1, store);
  });
  program.thread([&](Thread& t) {
    saw_flag = t.load(flag, load);
    put(t, in_reader);
    saw_data = t.load(data);
  });
  return program.can_end([&](const Outcome& e) { return e[saw_flag] == 1 && e[saw_data] == 0; });
}

TEST(MessagePassing, LosesTheDataWithoutOrder) {
  EXPECT_TRUE(stale_data(kRelaxed, kRelaxed));
  EXPECT_TRUE(stale_data(kRelease, kRelaxed));
  EXPECT_TRUE(stale_data(kRelaxed, kAcquire));
}
TEST(MessagePassing, HoldsWithReleaseAndAcquire) { EXPECT_FALSE(stale_data(kRelease, kAcquire)); }
TEST(MessagePassing, HoldsWithFences) {
  EXPECT_FALSE(stale_data(kRelaxed, kRelaxed, Between::kFence, Between::kFence));
  EXPECT_TRUE(stale_data(kRelaxed, kRelaxed, Between::kFence, Between::kNothing));
  EXPECT_TRUE(stale_data(kRelaxed, kRelaxed, Between::kNothing, Between::kFence));
}
TEST(MessagePassing, HoldsWithOneMembarrierBehindTheFlag) {
  EXPECT_FALSE(stale_data(kRelaxed, kRelaxed, Between::kNothing, Between::kMembarrier));
}
TEST(MessagePassing, ABranchDoesNotOrderLoads) {
  Program program;
  const Var data = program.var();
  const Var flag = program.var();
  Reg saw;
  program.thread([&](Thread& t) {
    t.store(data, 1);
    t.store(flag, 1, kRelease);
  });
  program.thread([&](Thread& t) {
    const Reg ready = t.load(flag);
    t.when(ready, kEqual, 1, [&] { saw = t.load(data); });
  });
  EXPECT_TRUE(program.can_end([&](const Outcome& e) { return e[saw] == 0; }));
}

// ---- Load buffering: each loads and then stores for the other

bool out_of_thin_order(Order load, bool depends, bool branches) {
  Program program;
  const Var x = program.var();
  const Var y = program.var();
  Reg one;
  Reg two;
  const auto half = [&](Var from, Var to, Reg& reg) {
    return [&, from, to](Thread& t) {
      reg = t.load(from, load);
      if (branches) {
        t.when(reg, kEqual, 1, [&] { t.store(to, 1); });
      } else if (depends) {
        t.store(to, reg);
      } else {
        t.store(to, 1);
      }
    };
  };
  program.thread(half(x, y, one));
  program.thread(half(y, x, two));
  return program.can_end([&](const Outcome& e) { return e[one] == 1 && e[two] == 1; });
}

TEST(LoadBuffering, BothCanSeeTheOthersLaterStore) {
  EXPECT_TRUE(out_of_thin_order(kRelaxed, false, false));
}
TEST(LoadBuffering, AcquireForbidsIt) { EXPECT_FALSE(out_of_thin_order(kAcquire, false, false)); }
TEST(LoadBuffering, ValuesAndBranchesForbidItAsWell) {
  EXPECT_FALSE(out_of_thin_order(kRelaxed, true, false));
  EXPECT_FALSE(out_of_thin_order(kRelaxed, false, true)) << "a store is never speculative";
}

// ---- Coherence

TEST(Coherence, OneVariableNeverGoesBack) {
  Program program;
  const Var x = program.var();
  Reg first;
  Reg second;
  program.thread([&](Thread& t) {
    t.store(x, 1);
    t.store(x, 2);
  });
  program.thread([&](Thread& t) {
    first = t.load(x);
    second = t.load(x);
  });
  EXPECT_FALSE(program.can_end([&](const Outcome& e) { return e[second] < e[first]; }));
  EXPECT_TRUE(program.can_end([&](const Outcome& e) { return e[first] == 0 && e[second] == 2; }));
  EXPECT_FALSE(program.can_end([&](const Outcome& e) { return e[x] != 2; }));
}

TEST(Coherence, ACellOfAnArrayIsAVariableOfItsOwn) {
  Program program;
  const Var cells = program.array(2);
  const Var which = program.var(1);
  Reg index;
  Reg got;
  program.thread([&](Thread& t) {
    index = t.load(which);
    t.store_at(cells, index, 7);
    got = t.load_at(cells, 1);
  });
  EXPECT_FALSE(program.can_end([&](const Outcome& e) { return e[got] != 7 || e[index] != 1; }));
}

// ---- Independent readers of independent writes

bool readers_disagree(Order load, Between between) {
  Program program;
  const Var x = program.var();
  const Var y = program.var();
  Reg a1;
  Reg a2;
  Reg b1;
  Reg b2;
  program.thread([&](Thread& t) { t.store(x, 1); });
  program.thread([&](Thread& t) { t.store(y, 1); });
  program.thread([&](Thread& t) {
    a1 = t.load(x, load);
    put(t, between);
    a2 = t.load(y, load);
  });
  program.thread([&](Thread& t) {
    b1 = t.load(y, load);
    put(t, between);
    b2 = t.load(x, load);
  });
  return program.can_end(
      [&](const Outcome& e) { return e[a1] == 1 && e[a2] == 0 && e[b1] == 1 && e[b2] == 0; });
}

TEST(IndependentReaders, CanDisagreeWithoutOrder) {
  EXPECT_TRUE(readers_disagree(kRelaxed, Between::kNothing));
}
TEST(IndependentReaders, AgreeWithFences) {
  EXPECT_FALSE(readers_disagree(kRelaxed, Between::kFence));
}
TEST(IndependentReaders, AgreeWithAcquiresForThereIsOneMemory) {
  EXPECT_FALSE(readers_disagree(kAcquire, Between::kNothing));
}

// ---- Read-modify-write, waiting

TEST(Exchange, NoStoreComesBetweenItsLoadAndItsStore) {
  Program program;
  const Var x = program.var();
  Reg one;
  Reg two;
  program.thread([&](Thread& t) { one = t.compare_exchange(x, 0, 1, kRelaxed); });
  program.thread([&](Thread& t) { two = t.compare_exchange(x, 0, 2, kRelaxed); });
  EXPECT_FALSE(program.can_end([&](const Outcome& e) { return e[one] == 0 && e[two] == 0; }));
  EXPECT_FALSE(program.can_end([&](const Outcome& e) { return e[one] != 0 && e[two] != 0; }));
  EXPECT_FALSE(program.can_get_stuck());
}

TEST(Exchange, ALockOfOneWordExcludes) {
  Program program;
  const Var word = program.var();
  const Var sum = program.var();
  for (int i = 0; i < 2; ++i) {
    program.thread([&](Thread& t) {
      t.await_exchange(word, 0, 1, kAcquire);
      const Reg before = t.load(sum);
      t.store(sum, {before, 1});
      t.store(word, 0, kRelease);
    });
  }
  EXPECT_FALSE(program.can_end([&](const Outcome& e) { return e[sum] != 2; }));
  EXPECT_FALSE(program.can_get_stuck());
}

TEST(Await, WhatNeverComesIsReported) {
  Program program;
  const Var flag = program.var();
  program.thread([&](Thread& t) { t.await(flag, kEqual, 1); });
  EXPECT_TRUE(program.can_get_stuck());
  Program other;
  const Var raised = other.var();
  other.thread([&](Thread& t) { t.await(raised, kEqual, 1); });
  other.thread([&](Thread& t) { t.store(raised, 1); });
  EXPECT_FALSE(other.can_get_stuck());
}

TEST(Await, AStoreBehindItDoesNotComeBeforeIt) {
  Program program;
  const Var flag = program.var();
  const Var data = program.var();
  Reg saw;
  program.thread([&](Thread& t) {
    t.await(flag, kEqual, 1);
    t.store(data, 1);
  });
  program.thread([&](Thread& t) {
    saw = t.load(data, kAcquire);
    t.store(flag, 1);
  });
  EXPECT_TRUE(program.can_end([&](const Outcome& e) { return e[saw] == 0; }));
  EXPECT_FALSE(program.can_end([&](const Outcome& e) { return e[saw] == 1; }));
}

}  // namespace
}  // namespace verbatim::models
