// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "models/weak_memory.h"

// base/biased_lock.h, step by step. The lock guards `sum`: every thread that holds the lock
// adds one. So two holders at once lose an update, and an update that arrives late shows as well.
namespace verbatim::models {
namespace {

using enum Order;
using enum Test;

constexpr int kNoSeat = 0;

struct Steps {
  bool fenced = false;  // the favoured thread keeps its own order
  bool first_barrier = true;
  bool second_barrier = true;
  bool looks_again = true;  // the favoured thread, behind its store of `held`
  bool own_seats = true;    // each thread has a `held` of its own
  bool restores = true;     // a try that fails gives the bias back
};

class Lock {
 public:
  Lock(Program& program, const Steps& steps, int favoured)
      : steps_(steps),
        word_(program.var()),
        bias_(program.var(favoured)),
        held_{program.var(), program.var()},
        sum_(program.var()) {}

  /// lock_as_favoured(), else lock_as_any() when no thread is favoured any more; then unlock().
  void use_as_favoured(Thread& t, int seat) {
    const Var held = held_of(seat);
    const Reg first = t.load(bias_);
    t.when(first, kEqual, seat, [&] {
      t.store(held, 1);
      if (steps_.fenced) t.fence();
      const Reg again = steps_.looks_again ? t.load(bias_) : first;
      t.when(again, kEqual, seat, [&] {
        add(t);
        stand_up(t, held);
      });
      t.when(again, kNotEqual, seat, [&] {
        stand_up(t, held);
        use_as_any(t);
      });
    });
    t.when(first, kNotEqual, seat, [&] { use_as_any(t); });
  }

  /// lock_as_any() and unlock(), by a thread that is not favoured.
  void use_as_any(Thread& t) {
    t.await_exchange(word_, 0, 1, kAcquire);
    revoke(t);
    add(t);
    t.store(word_, 0, kRelease);
  }

  /// The same, and the thread gets the bias while it holds the lock.
  void use_and_win(Thread& t, int seat) {
    t.await_exchange(word_, 0, 1, kAcquire);
    revoke(t);
    t.store(bias_, seat);
    t.store(held_of(seat), 1);
    t.store(word_, 0, kRelease);
    add(t);
    stand_up(t, held_of(seat));
  }

  /// try_lock() of a thread that is not favoured, while the favoured one is in seat 1. Adds one to
  /// `sum` or nothing.
  void try_to_use(Thread& t) {
    const Reg word = t.compare_exchange(word_, 0, 1, kAcquire);
    t.when(word, kEqual, 0, [&] {
      const Reg bias = t.load(bias_);
      t.when(bias, kNotEqual, kNoSeat, [&] {
        t.store(bias_, kNoSeat);
        if (steps_.first_barrier) barrier(t);
        const Reg held = t.load(held_of(1), kAcquire);
        t.when(held, kNotEqual, 0, [&] {
          if (steps_.restores) t.store(bias_, 1);
          t.store(word_, 0, kRelease);
        });
        t.when(held, kEqual, 0, [&] {
          if (steps_.second_barrier) barrier(t);
          got_in_ = t.load(one_in_);
          add(t);
          t.store(word_, 0, kRelease);
        });
      });
    });
  }

  void count_tries(Var one) { one_in_ = one; }
  [[nodiscard]] Var sum() const { return sum_; }
  [[nodiscard]] Reg got_in() const { return got_in_; }

 private:
  [[nodiscard]] Var held_of(int seat) const { return held_[steps_.own_seats ? seat - 1 : 0]; }
  void add(Thread& t) {
    const Reg before = t.load(sum_);
    t.store(sum_, {before, 1});
  }
  void stand_up(Thread& t, Var held) { t.store(held, 0, steps_.fenced ? kRelease : kRelaxed); }
  void barrier(Thread& t) { steps_.fenced ? t.fence() : t.membarrier(); }
  /// With word_ held.
  void revoke(Thread& t) {
    const Reg bias = t.load(bias_);
    for (const int seat : {1, 2}) {
      t.when(bias, kEqual, seat, [&] {
        t.store(bias_, kNoSeat);
        if (steps_.first_barrier) barrier(t);
        t.await(held_of(seat), kEqual, 0, kAcquire);
        if (steps_.second_barrier) barrier(t);
      });
    }
  }

  Steps steps_;
  Var word_;
  Var bias_;
  Var held_[2];
  Var sum_;
  Var one_in_{};
  Reg got_in_{};
};

/// The favoured thread and one that is not each use the lock once.
struct TwoThreads {
  explicit TwoThreads(const Steps& steps) : lock(program, steps, 1) {
    program.thread([&](Thread& t) { lock.use_as_favoured(t, 1); });
    program.thread([&](Thread& t) { lock.use_as_any(t); });
  }
  [[nodiscard]] bool loses_an_update() const {
    return program.can_end([&](const Outcome& end) { return end[lock.sum()] != 2; });
  }
  Program program;
  Lock lock;
};

TEST(BiasedLockModel, ExcludesWithPlainStoresAndTwoMembarriers) {
  const TwoThreads model({});
  EXPECT_FALSE(model.loses_an_update());
  EXPECT_FALSE(model.program.can_get_stuck());
}

TEST(BiasedLockModel, ExcludesWithFencesOfItsOwn) {
  const TwoThreads model({.fenced = true});
  EXPECT_FALSE(model.loses_an_update());
  EXPECT_FALSE(model.program.can_get_stuck());
}

TEST(BiasedLockModel, WithoutTheFirstBarrierTwoAreIn) {
  EXPECT_TRUE(TwoThreads({.first_barrier = false}).loses_an_update());
}

TEST(BiasedLockModel, WithoutTheSecondBarrierAnUpdateIsLost) {
  EXPECT_TRUE(TwoThreads({.second_barrier = false}).loses_an_update());
}

TEST(BiasedLockModel, WithoutTheSecondLookTwoAreIn) {
  EXPECT_TRUE(TwoThreads({.looks_again = false}).loses_an_update());
}

TEST(BiasedLockModel, AFencedLockNeedsNoSecondBarrierForItReleases) {
  EXPECT_FALSE(TwoThreads({.fenced = true, .second_barrier = false}).loses_an_update());
  EXPECT_TRUE(TwoThreads({.fenced = true, .first_barrier = false}).loses_an_update());
}

/// One thread was favoured, another wins the bias from it, a third revokes that.
struct ThreeThreads {
  explicit ThreeThreads(const Steps& steps) : lock(program, steps, 1) {
    program.thread([&](Thread& t) { lock.use_as_favoured(t, 1); });
    program.thread([&](Thread& t) { lock.use_and_win(t, 2); });
    program.thread([&](Thread& t) { lock.use_as_any(t); });
  }
  [[nodiscard]] bool loses_an_update() const {
    return program.can_end([&](const Outcome& end) { return end[lock.sum()] != 3; });
  }
  Program program;
  Lock lock;
};

TEST(BiasedLockModel, TheBiasMovesFromThreadToThread) {
  EXPECT_FALSE(ThreeThreads({}).loses_an_update());
}

TEST(BiasedLockModel, TwoThreadsCannotShareASeat) {
  EXPECT_TRUE(ThreeThreads({.own_seats = false}).loses_an_update());
}

/// The favoured thread uses the lock, and another tries to get in.
struct ATry {
  explicit ATry(const Steps& steps) : lock(program, steps, 1) {
    lock.count_tries(program.var(1));
    program.thread([&](Thread& t) { lock.use_as_favoured(t, 1); });
    program.thread([&](Thread& t) { lock.try_to_use(t); });
  }
  [[nodiscard]] bool loses_an_update() const {
    return program.can_end(
        [&](const Outcome& end) { return end[lock.sum()] != (end[lock.got_in()] == 1 ? 2 : 1); });
  }
  Program program;
  Lock lock;
};

TEST(BiasedLockModel, ATryGetsInAloneOrNotAtAll) {
  const ATry model({});
  EXPECT_FALSE(model.loses_an_update());
  EXPECT_FALSE(model.program.can_get_stuck());
  EXPECT_TRUE(model.program.can_end([&](const Outcome& end) {
    return end[model.lock.got_in()] == 1;
  })) << "it must be able to get in at all";
}

TEST(BiasedLockModel, ATryWithoutEitherBarrierLosesUpdates) {
  EXPECT_TRUE(ATry({.first_barrier = false}).loses_an_update());
  EXPECT_TRUE(ATry({.second_barrier = false}).loses_an_update());
}

/// A third thread comes after a try that failed: it must still find that the seat is taken.
TEST(BiasedLockModel, ATryThatFailsHasToGiveTheBiasBack) {
  const auto loses = [](bool restores) {
    Program program;
    Lock lock(program, {.restores = restores}, 1);
    lock.count_tries(program.var(1));
    program.thread([&](Thread& t) { lock.use_as_favoured(t, 1); });
    program.thread([&](Thread& t) {
      lock.try_to_use(t);
      lock.use_as_any(t);
    });
    return program.can_end(
        [&](const Outcome& end) { return end[lock.sum()] != (end[lock.got_in()] == 1 ? 3 : 2); });
  };
  EXPECT_FALSE(loses(true));
  EXPECT_TRUE(loses(false));
}

}  // namespace
}  // namespace verbatim::models
