// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstddef>

#include "models/weak_memory.h"

// transport/queues/shared_receive_ring.h, step by step: a queue of one cell in which the owner has
// posted one receive, and posts another as soon as the cell is free. Two responders each try to
// claim one.
namespace verbatim::models {
namespace {

using enum Order;
using enum Test;

struct Steps {
  Order post = kRelease;     // of the claim word, and of the tail
  Order release = kRelease;  // of the cell, by its claimant
  bool tagged = true;        // the claim word of a posted cell carries its place
};

class Model {
 public:
  explicit Model(const Steps& steps) : steps_(steps) {
    for (std::size_t i = 0; i < 2; ++i) {
      program_.thread([&, i](Thread& t) { claim(t, i); });
    }
    program_.thread([&](Thread& t) {
      t.await(claim_, kEqual, kFree, kAcquire);
      t.store(payload_, kPayload + 1);
      t.store(claim_, steps_.tagged ? kPosted + 1 : kPosted, steps_.post);
      t.store(tail_, 2, steps_.post);
    });
  }

  /// A claimant finds another receive than the one it claimed.
  [[nodiscard]] bool mixes_receives() const {
    return can_end([&](const Outcome& end, std::size_t i) {
      return has_one(end, i) && end[found_[i]] != kPayload + end[head_seen_[i]];
    });
  }
  /// Both have the same one.
  [[nodiscard]] bool gives_one_twice() const {
    return program_.can_end([&](const Outcome& end) {
      return has_one(end, 0) && has_one(end, 1) && end[found_[0]] == end[found_[1]];
    });
  }
  [[nodiscard]] bool serves_both() const {
    return program_.can_end([&](const Outcome& end) { return has_one(end, 0) && has_one(end, 1); });
  }
  /// The head does not say how many were taken.
  [[nodiscard]] bool miscounts() const {
    return program_.can_end([&](const Outcome& end) {
      return end[head_] != int{has_one(end, 0)} + int{has_one(end, 1)};
    });
  }

 private:
  static constexpr int kFree = 0;
  static constexpr int kClaimant = 1;  // and 2
  static constexpr int kPosted = 10;
  static constexpr int kPayload = 50;

  void claim(Thread& t, std::size_t i) {
    const Reg head = head_seen_[i] = t.load(head_, kAcquire);
    const Reg tail = t.load(tail_, kAcquire);
    t.when(tail, kNotEqual, head, [&] {
      const Value expected = steps_.tagged ? Value(head, kPosted) : Value(kPosted);
      got_[i] =
          t.compare_exchange(claim_, expected, kClaimant + static_cast<int>(i), kAcquireRelease);
      t.compare_exchange(head_, head, Value(head, 1), kAcquireRelease);
      t.when(got_[i], kEqual, expected, [&] {
        found_[i] = t.load(payload_);
        t.store(claim_, kFree, steps_.release);
      });
    });
  }
  [[nodiscard]] bool has_one(const Outcome& end, std::size_t i) const {
    return end[found_[i]] != Outcome::kNothing;
  }
  template <typename Bad>
  [[nodiscard]] bool can_end(Bad&& bad) const {
    return program_.can_end([&](const Outcome& end) { return bad(end, 0) || bad(end, 1); });
  }

  Steps steps_;
  Program program_;
  Var head_ = program_.var();
  Var tail_ = program_.var(1);
  Var claim_ = program_.var(kPosted);
  Var payload_ = program_.var(kPayload);
  std::array<Reg, 2> head_seen_{};
  std::array<Reg, 2> got_{};
  std::array<Reg, 2> found_{};
};

TEST(SharedReceiveModel, EveryReceiveIsClaimedOnceAndWhole) {
  const Model model({});
  EXPECT_FALSE(model.mixes_receives());
  EXPECT_FALSE(model.gives_one_twice());
  EXPECT_FALSE(model.miscounts());
  EXPECT_TRUE(model.serves_both());
}

TEST(SharedReceiveModel, NeedsTheReleaseOfPost) {
  EXPECT_TRUE(Model({.post = kRelaxed}).mixes_receives());
}

TEST(SharedReceiveModel, NeedsTheReleaseOfTheCell) {
  EXPECT_TRUE(Model({.release = kRelaxed}).mixes_receives());
}

TEST(SharedReceiveModel, WithoutThePlaceASleeperTakesALaterReceiveAndTheCountIsWrong) {
  EXPECT_TRUE(Model({.tagged = false}).mixes_receives());
  EXPECT_TRUE(Model({.tagged = false}).miscounts());
}

// ---- The limit: claim() against arm_limit()

bool limit_is_missed(bool barrier) {
  Program program;
  const Var head = program.var();
  const Var limit = program.var();
  const Var reached = program.var();
  program.thread([&](Thread& t) {
    t.compare_exchange(head, 0, 1, kAcquireRelease);
    const Reg armed = t.load(limit);
    t.when(armed, kEqual, 1, [&] { t.store(reached, 1, kRelease); });
  });
  program.thread([&](Thread& t) {
    t.store(limit, 1);
    if (barrier) t.membarrier();
    const Reg taken = t.load(head, kAcquire);
    t.when(taken, kEqual, 1, [&] { t.store(reached, 1, kRelease); });
  });
  return program.can_end([&](const Outcome& end) { return end[reached] == 0; });
}

TEST(SharedReceiveModel, TheLimitIsSeenByTheClaimantOrByTheOwner) {
  EXPECT_FALSE(limit_is_missed(true));
  EXPECT_TRUE(limit_is_missed(false)) << "a compare-and-swap is no fence";
}

}  // namespace
}  // namespace verbatim::models
