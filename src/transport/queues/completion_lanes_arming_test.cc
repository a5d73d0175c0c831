// SPDX-License-Identifier: Apache-2.0
// Arming a completion queue and the events that follow (IBA Vol 1, 11.4.2.2).
#include "transport/queues/completion_lanes.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "transport/queues/test_completion_lanes.h"

namespace verbatim::transport {
namespace {

using namespace test;

// A completion whose producer did not see the arming is found by the poll that follows.
TEST(CompletionLanes, CallsTheBarrierOnceWhenItIsArmedTwice) {
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

TEST(CompletionLanes, AnArmedQueueFiresOnce) {
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

TEST(CompletionLanes, AnUnarmedQueueNeverFires) {
  TestQueue test;
  auto port = test.attach();
  ASSERT_TRUE(port.publish(solicited(1)));
  ASSERT_TRUE(port.publish(failed(2)));
  EXPECT_FALSE(test.queue().take_event());
}

TEST(CompletionLanes, WhatWaitsAlreadyDoesNotFire) {
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

TEST(CompletionLanes, ForSolicitedCompletionsOthersDoNotFire) {
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

TEST(CompletionLanes, AFailureIsAlwaysSolicited) {
  TestQueue test;
  auto port = test.attach();
  test.queue().arm(Arming::kSolicited);
  ASSERT_TRUE(port.publish(failed(1)));
  EXPECT_TRUE(test.queue().take_event());
}

TEST(CompletionLanes, ArmingForEverythingIsNotWeakened) {
  TestQueue test;
  auto port = test.attach();
  test.queue().arm(Arming::kAny);
  test.queue().arm(Arming::kSolicited);
  ASSERT_TRUE(publish(port, 1));
  EXPECT_TRUE(test.queue().take_event());
}

TEST(CompletionLanes, ArmingForSolicitedIsWidened) {
  TestQueue test;
  auto port = test.attach();
  test.queue().arm(Arming::kSolicited);
  test.queue().arm(Arming::kAny);
  ASSERT_TRUE(publish(port, 1));
  EXPECT_TRUE(test.queue().take_event());
  EXPECT_FALSE(test.queue().take_event());
}

TEST(CompletionLanes, ArmingTwiceIsOneEvent) {
  TestQueue test;
  auto port = test.attach();
  test.queue().arm(Arming::kAny);
  test.queue().arm(Arming::kAny);
  ASSERT_TRUE(publish(port, 1));
  ASSERT_TRUE(publish(port, 2));
  EXPECT_TRUE(test.queue().take_event());
  EXPECT_FALSE(test.queue().take_event());
}

TEST(CompletionLanes, EachArmingThatFiredIsAnEventOfItsOwn) {
  TestQueue test;
  auto port = test.attach();
  for (std::uint64_t i = 0; i < 3; ++i) {
    test.queue().arm(Arming::kAny);
    ASSERT_TRUE(publish(port, i));
  }
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(test.queue().take_event()) << i;
  EXPECT_FALSE(test.queue().take_event());
}

TEST(CompletionLanes, AnyLaneFiresTheOneEvent) {
  TestQueue test;
  auto a = test.attach();
  auto b = test.attach();
  test.queue().arm(Arming::kAny);
  ASSERT_TRUE(publish(b, 1));
  ASSERT_TRUE(publish(a, 2));
  EXPECT_TRUE(test.queue().take_event());
  EXPECT_FALSE(test.queue().take_event());
}

/// A producer that died in publish(), after the completion and before the counter of its lane.
TEST(CompletionLanes, RecoveryRaisesTheEventOfADeadProducer) {
  for (const bool had_disarmed : {false, true}) {
    TestQueue test;
    auto port = test.attach();
    test.queue().arm(Arming::kAny);
    CompletionLane lane = port.lane();
    ASSERT_TRUE(lane.put(completion(1)));
    if (had_disarmed) test.board().armed().store(0);
    EXPECT_FALSE(test.queue().take_event());
    port.recover();
    EXPECT_TRUE(test.queue().take_event()) << had_disarmed;
    EXPECT_EQ(port.published(), 1U);
    EXPECT_EQ(test.poll(2), Ids{1});
    port.recover();
    EXPECT_FALSE(test.queue().take_event()) << "once";
  }
}

// ---- Threads

TEST(CompletionLanes, NeverFiresMoreOftenThanItWasArmed) {
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
