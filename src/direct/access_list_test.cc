// SPDX-License-Identifier: Apache-2.0
#include "direct/access_list.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "direct/visitor.h"

namespace verbatim::direct {
namespace {

constexpr Duration kNoPatience{0};
constexpr Duration kMuchPatience = std::chrono::minutes(1);
constexpr Duration kEndlessPatience = std::chrono::hours(1);

class AccessListTest : public ::testing::Test {
 protected:
  void enter() { visiting_.inside.enter(Fencing::kFenced); }
  void leave() { visiting_.inside.leave(Fencing::kFenced); }
  static void await(Duration patience) { AccessList::of_process().await(patience); }
  /// The visit that goes on is waited for, and ends.
  void expect_wait_until_left() {
    std::atomic<bool> is_over{false};
    std::thread waiting([&] {
      await(kEndlessPatience);
      EXPECT_TRUE(is_over);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    is_over = true;
    leave();
    waiting.join();
  }

  Visiting visiting_;
};

TEST_F(AccessListTest, WaitsForAVisitThatGoesOn) {
  const Visitor visitor(nullptr, &visiting_);
  enter();
  expect_wait_until_left();
}

TEST_F(AccessListTest, DoesNotWaitForLaterVisits) {
  const Visitor visitor(nullptr, &visiting_);
  enter();
  std::thread waiting([] { await(kEndlessPatience); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  leave();
  enter();  // a later visit, which does not end
  waiting.join();
}

TEST_F(AccessListTest, DoesNotWaitAgainForAVisitThatItHasPassedOver) {
  const Visitor visitor(nullptr, &visiting_);
  enter();
  await(kNoPatience);
  const auto start = std::chrono::steady_clock::now();
  await(kMuchPatience);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kMuchPatience);
  leave();
  enter();  // another visit is waited for
  expect_wait_until_left();
}

TEST_F(AccessListTest, KnowsAVisitorAsLongAsACopyOfItExists) {
  enter();
  auto visitor = std::make_unique<Visitor>(nullptr, &visiting_);
  const auto other = std::make_unique<Visitor>(nullptr, &visiting_);
  auto copy = std::make_unique<Visitor>(*visitor);
  visitor.reset();
  copy.reset();
  EXPECT_TRUE(other->exists());
  leave();
  await(kEndlessPatience);
}

TEST_F(AccessListTest, IsEmptyInAForkedChild) {
  const Visitor before(nullptr, &visiting_);
  enter();
  AccessList::of_process().forget_in_child();
  await(kEndlessPatience);
  { const Visitor after(nullptr, &visiting_); }
  await(kEndlessPatience);
  leave();
}

// For the end of a registration.

TEST_F(AccessListTest, WaitsForRequestersAloneOnRequest) {
  const AccessParty adapter(AccessParty::Kind::kAdapter, visiting_.inside);
  enter();
  AccessList::of_process().await_requesters(kEndlessPatience);  // there is none
  Occupancy own;
  const AccessParty requester(AccessParty::Kind::kRequester, own);
  own.enter(Fencing::kFenced);
  std::atomic<bool> is_over{false};
  std::thread waiting([&] {
    AccessList::of_process().await_requesters(kEndlessPatience);
    EXPECT_TRUE(is_over);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  is_over = true;
  own.leave(Fencing::kFenced);
  waiting.join();
  leave();
}

TEST_F(AccessListTest, WaitsAgainForARequesterThatItHasPassedOver) {
  const AccessParty requester(AccessParty::Kind::kRequester, visiting_.inside);
  enter();
  await(kNoPatience);
  std::atomic<bool> is_over{false};
  std::thread waiting([&] {
    AccessList::of_process().await_requesters(kEndlessPatience);
    EXPECT_TRUE(is_over);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  is_over = true;
  leave();
  waiting.join();
}

}  // namespace
}  // namespace verbatim::direct
