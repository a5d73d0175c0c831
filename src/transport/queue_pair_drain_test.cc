// SPDX-License-Identifier: Apache-2.0
// A send queue that drains (SQD) or has stopped over an error (SQE).
#include <gtest/gtest.h>

#include <string>

#include "transport/test_queue_pair.h"

namespace verbatim::transport::test {
namespace {

using wire::Operation;
using wire::Psn;

constexpr auto kRts = QpState::kReadyToSend;
constexpr auto kSqd = QpState::kSendQueueDrained;
constexpr auto kSqe = QpState::kSendQueueError;
constexpr auto kErr = QpState::kError;

/// Begins to drain, and asks for the event.
Status drain(TestEnd& end) {
  end.wanted.sqd_notify = true;
  return end.step(kSqd, QpMask::kSqdNotify);
}
/// RTS again, naming nothing but the state.
Status resume(TestEnd& end) {
  QpAttributes wanted;
  wanted.state = kRts;
  return end.qp().modify(QpMask::kState, wanted, nullptr);
}

class DrainTest : public testing::Test {
 protected:
  void SetUp() override {
    a_.connect(b_);
    b_.connect(a_);
    for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(b_.post_receive(100 + i).ok());
  }
  TestEnd a_{{.index = 0}};
  TestEnd b_{{.index = 1}};
};

// ---- SQD

TEST_F(DrainTest, AnIdleQueueIsDrainedAtOnce) {
  ASSERT_TRUE(drain(a_).ok());
  EXPECT_EQ(a_.qp().state(), kSqd);
  EXPECT_FALSE(is_draining(a_.qp()));
  EXPECT_EQ(a_.events(), Events{QpEvent::kSendQueueDrained});
  EXPECT_TRUE(a_.events().empty());
  EXPECT_TRUE(resume(a_).ok());
  EXPECT_TRUE(a_.events().empty());
}

TEST_F(DrainTest, NoEventIsRaisedUnlessAskedFor) {
  ASSERT_TRUE(a_.step(kSqd).ok());
  EXPECT_FALSE(is_draining(a_.qp()));
  EXPECT_TRUE(a_.events().empty());
  a_.wanted.sqd_notify = false;
  ASSERT_TRUE(resume(a_).ok());
  ASSERT_TRUE(a_.step(kSqd, QpMask::kSqdNotify).ok()) << "named, and not wanted";
  EXPECT_TRUE(a_.events().empty());
}

TEST_F(DrainTest, ARequestForTheEventIsForOneDrain) {
  ASSERT_TRUE(drain(a_).ok());
  EXPECT_EQ(a_.events().size(), 1U);
  ASSERT_TRUE(resume(a_).ok());
  ASSERT_TRUE(a_.step(kSqd).ok());
  EXPECT_TRUE(a_.events().empty());
  ASSERT_TRUE(resume(a_).ok());
  ASSERT_TRUE(drain(a_).ok());
  EXPECT_EQ(a_.events().size(), 1U);
}

TEST_F(DrainTest, StartedSendsFinishAndOthersWait) {
  ASSERT_TRUE(a_.post_send(1, 3 * TestEnd::kMtu).ok());
  ASSERT_TRUE(a_.post_send(2).ok());
  ASSERT_TRUE(a_.carry_to(b_));
  ASSERT_TRUE(drain(a_).ok());
  EXPECT_TRUE(is_draining(a_.qp()));
  EXPECT_TRUE(a_.events().empty());
  ASSERT_TRUE(a_.post_send(3).ok());
  EXPECT_FALSE(resume(a_).ok()) << "not while it drains";
  EXPECT_EQ(a_.qp().state(), kSqd);
  const auto rest = transmit_all(a_);
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[1].operation(), Operation::kSendLast);
  for (const auto& packet : rest) b_.handle(packet);
  EXPECT_TRUE(is_draining(a_.qp())) << "until it is acknowledged";
  EXPECT_TRUE(a_.events().empty());
  exchange(a_, b_);
  EXPECT_FALSE(is_draining(a_.qp()));
  EXPECT_EQ(a_.events(), Events{QpEvent::kSendQueueDrained});
  EXPECT_EQ(endings(a_.sends()), (Endings{{1, WcStatus::kSuccess}}));
  EXPECT_FALSE(a_.transmit().has_value());

  ASSERT_TRUE(resume(a_).ok());
  exchange(a_, b_);
  EXPECT_EQ(endings(a_.sends()), (Endings{{2, WcStatus::kSuccess}, {3, WcStatus::kSuccess}}));
  EXPECT_TRUE(a_.events().empty());
}

TEST_F(DrainTest, AReadIsDrainedWhenItsDataHasArrived) {
  ASSERT_TRUE(a_.post({.wr_id = 1,
                       .opcode = SendOpcode::kRead,
                       .remote_address = TestEnd::address(0),
                       .rkey = b_.key()},
                      0, 20 * TestEnd::kMtu)
                  .ok());
  ASSERT_TRUE(a_.carry_to(b_));
  ASSERT_TRUE(drain(a_).ok());
  ASSERT_TRUE(b_.carry_to(a_));
  EXPECT_TRUE(is_draining(a_.qp()));
  exchange(a_, b_);  // its other pieces are asked for although the queue drains
  EXPECT_EQ(endings(a_.sends()), (Endings{{1, WcStatus::kSuccess}}));
  EXPECT_EQ(a_.events(), Events{QpEvent::kSendQueueDrained});
}

TEST_F(DrainTest, ALostPacketIsSentAgain) {
  ASSERT_TRUE(a_.post_send(1).ok());
  ASSERT_TRUE(a_.transmit().has_value());  // lost
  ASSERT_TRUE(drain(a_).ok());
  const Instant later = a_.qp().next_timeout();
  ASSERT_NE(later, Instant::never());
  a_.qp().handle_timeout(later);
  exchange(a_, b_, later);
  EXPECT_EQ(endings(a_.sends()), (Endings{{1, WcStatus::kSuccess}}));
  EXPECT_EQ(a_.events(), Events{QpEvent::kSendQueueDrained});
}

TEST_F(DrainTest, TheOtherDirectionContinues) {
  ASSERT_TRUE(drain(a_).ok());
  ASSERT_TRUE(a_.post_receive(7).ok());
  ASSERT_TRUE(b_.post_send(8, 700).ok());
  ASSERT_TRUE(b_.post({.wr_id = 9,
                       .opcode = SendOpcode::kRead,
                       .remote_address = TestEnd::address(0),
                       .rkey = a_.key()},
                      0, 700)
                  .ok());
  exchange(a_, b_);
  EXPECT_EQ(endings(a_.receives()), (Endings{{7, WcStatus::kSuccess}}));
  EXPECT_EQ(endings(b_.sends()), (Endings{{8, WcStatus::kSuccess}, {9, WcStatus::kSuccess}}));
  EXPECT_EQ(a_.qp().state(), kSqd);
}

TEST_F(DrainTest, LocalOperationsWaitLikeTheOthers) {
  ASSERT_TRUE(drain(a_).ok());
  const auto window = *a_.registry().allocate_window(kHome, memory::KeyKind::kWindowType2B);
  ASSERT_TRUE(a_.qp()
                  .post_send({.wr_id = 1,
                              .opcode = SendOpcode::kBindWindow,
                              .bind = {.window_key = window,
                                       .new_key = memory::KeyRegistry::next_key(window),
                                       .region_key = a_.key(),
                                       .address = TestEnd::address(0),
                                       .octets = 64,
                                       .access = memory::Access::kRemoteRead}})
                  .ok());
  EXPECT_FALSE(a_.transmit().has_value());
  EXPECT_TRUE(a_.sends().empty());
  ASSERT_TRUE(resume(a_).ok());
  EXPECT_FALSE(a_.transmit().has_value());
  EXPECT_EQ(endings(a_.sends()), (Endings{{1, WcStatus::kSuccess}}));
}

TEST_F(DrainTest, MayEnterErrorWhileItDrains) {
  for (const auto to : {kErr, QpState::kReset}) {
    TestEnd a({.index = 0});
    TestEnd b({.index = 1});
    a.connect(b);
    ASSERT_TRUE(a.post_send(1).ok());
    ASSERT_TRUE(a.transmit().has_value());
    ASSERT_TRUE(a.post_send(2).ok());
    ASSERT_TRUE(drain(a).ok());
    ASSERT_TRUE(is_draining(a.qp()));
    ASSERT_TRUE(a.step(to).ok());
    EXPECT_FALSE(is_draining(a.qp()));
    EXPECT_TRUE(a.events().empty());
    const Endings flushed{{1, WcStatus::kFlushed}, {2, WcStatus::kFlushed}};
    EXPECT_EQ(endings(a.sends()), to == kErr ? flushed : Endings{});
  }
}

TEST_F(DrainTest, AFailureWhileDrainingEndsTheConnection) {
  ASSERT_TRUE(a_.post({.wr_id = 1,
                       .opcode = SendOpcode::kWrite,
                       .remote_address = 0,
                       .rkey = wire::MemoryKey{0xbad00}},
                      0, 8)
                  .ok());
  ASSERT_TRUE(a_.carry_to(b_));
  ASSERT_TRUE(drain(a_).ok());
  ASSERT_TRUE(a_.post_send(2).ok());
  exchange(a_, b_);
  EXPECT_EQ(a_.qp().state(), kErr);
  EXPECT_EQ(endings(a_.sends()), (Endings{{1, WcStatus::kRemoteAccess}, {2, WcStatus::kFlushed}}));
  EXPECT_TRUE(a_.events().empty()) << "it never drained";
}

TEST(UnreliableDrain, AMessageThatBeganIsSentWhole) {
  TestEnd a({.type = QpType::kUc, .index = 0});
  TestEnd b({.type = QpType::kUc, .index = 1});
  a.connect(b);
  b.connect(a);
  ASSERT_TRUE(b.post_receive(7).ok());
  ASSERT_TRUE(a.post_send(1, 3 * TestEnd::kMtu).ok());
  ASSERT_TRUE(a.post_send(2).ok());
  ASSERT_TRUE(a.carry_to(b));
  ASSERT_TRUE(drain(a).ok());
  EXPECT_TRUE(is_draining(a.qp()));
  EXPECT_FALSE(resume(a).ok());
  EXPECT_TRUE(a.events().empty());
  exchange(a, b);
  EXPECT_EQ(endings(a.sends()), (Endings{{1, WcStatus::kSuccess}}));
  EXPECT_EQ(a.events(), Events{QpEvent::kSendQueueDrained});
  EXPECT_EQ(endings(b.receives()), (Endings{{7, WcStatus::kSuccess}}));
  ASSERT_TRUE(resume(a).ok());
  EXPECT_TRUE(a.transmit().has_value());
  EXPECT_EQ(endings(a.sends()), (Endings{{2, WcStatus::kSuccess}}));
}

TEST(UnreliableDrain, DatagramsAreNeverHalfway) {
  TestEnd end({.type = QpType::kUd});
  end.connect(end);
  ASSERT_TRUE(end.post_send(1).ok());
  ASSERT_TRUE(drain(end).ok());
  EXPECT_EQ(end.events(), Events{QpEvent::kSendQueueDrained});
  EXPECT_FALSE(end.transmit().has_value());
  ASSERT_TRUE(resume(end).ok());
  EXPECT_TRUE(end.transmit().has_value());
}

// ---- SQE

class StoppedTest : public testing::TestWithParam<QpType> {
 protected:
  void SetUp() override {
    a_.connect(b_);
    b_.connect(a_);
  }
  TestEnd a_{{.type = GetParam(), .index = 0}};
  TestEnd b_{{.type = GetParam(), .index = 1}};
};

TEST_P(StoppedTest, AFailedSendStopsTheSendQueueAlone) {
  ASSERT_TRUE(a_.post_receive(7).ok());
  ASSERT_TRUE(post_broken_send(a_, 1).ok());
  ASSERT_TRUE(a_.post_send(2, 8, &b_).ok());
  ASSERT_TRUE(a_.post_send(3, 8, &b_).ok());
  EXPECT_FALSE(a_.transmit().has_value());
  EXPECT_EQ(a_.qp().state(), kSqe);
  EXPECT_EQ(
      endings(a_.sends()),
      (Endings{{1, WcStatus::kLocalProtection}, {2, WcStatus::kFlushed}, {3, WcStatus::kFlushed}}));
  EXPECT_TRUE(a_.receives().empty());
  EXPECT_TRUE(a_.events().empty());

  ASSERT_TRUE(a_.post_send(4, 8, &b_).ok());
  EXPECT_EQ(endings(a_.sends()), (Endings{{4, WcStatus::kFlushed}})) << "at once";
  ASSERT_TRUE(a_.post_receive(8).ok());
  ASSERT_TRUE(b_.post_send(5, 8, &a_).ok());
  exchange(a_, b_);
  EXPECT_EQ(endings(a_.receives()), (Endings{{7, WcStatus::kSuccess}}));
}

TEST_P(StoppedTest, WhatWasSentBeforeHasSucceeded) {
  ASSERT_TRUE(b_.post_receive(7).ok());
  ASSERT_TRUE(a_.post_send(1, 8, &b_).ok());
  ASSERT_TRUE(post_broken_send(a_, 2).ok());
  exchange(a_, b_);
  EXPECT_EQ(endings(a_.sends()),
            (Endings{{1, WcStatus::kSuccess}, {2, WcStatus::kLocalProtection}}));
  EXPECT_EQ(endings(b_.receives()), (Endings{{7, WcStatus::kSuccess}}));
}

TEST_P(StoppedTest, GoesOnWhereItStopped) {
  for (std::uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(b_.post_receive(i).ok());
  ASSERT_TRUE(a_.post_send(1, 8, &b_).ok());
  exchange(a_, b_);
  ASSERT_TRUE(post_broken_send(a_, 2).ok());
  exchange(a_, b_);
  ASSERT_EQ(a_.qp().state(), kSqe);
  (void)a_.sends();
  ASSERT_TRUE(resume(a_).ok());
  EXPECT_EQ(a_.qp().state(), kRts);
  ASSERT_TRUE(a_.post_send(3, 8, &b_).ok());
  const auto packet = a_.transmit();
  ASSERT_TRUE(packet.has_value());
  EXPECT_EQ(packet->psn(), Psn(1));
  b_.handle(*packet, a_.sent_to().source, a_.sent_to().destination);
  EXPECT_EQ(endings(a_.sends()), (Endings{{3, WcStatus::kSuccess}}));
  EXPECT_EQ(b_.receives().size(), 2U);
}

TEST_P(StoppedTest, MayEnterError) {
  ASSERT_TRUE(a_.post_receive(7).ok());
  ASSERT_TRUE(post_broken_send(a_, 1).ok());
  EXPECT_FALSE(a_.transmit().has_value());
  ASSERT_TRUE(a_.step(kErr).ok());
  EXPECT_EQ(endings(a_.receives()), (Endings{{7, WcStatus::kFlushed}}));
  EXPECT_EQ(endings(a_.sends()), (Endings{{1, WcStatus::kLocalProtection}}));
}

TEST_P(StoppedTest, AFailedReceiveEndsItNevertheless) {
  const memory::Sge list[] = {{.address = 0, .octets = 512, .lkey = wire::MemoryKey{1}}};
  ASSERT_TRUE(a_.qp().post_receive({.wr_id = 7, .list = list}).ok());
  ASSERT_TRUE(post_broken_send(a_, 1).ok());
  EXPECT_FALSE(a_.transmit().has_value());
  ASSERT_TRUE(b_.post_send(5, 8, &a_).ok());
  exchange(a_, b_);
  EXPECT_EQ(a_.qp().state(), kErr);
  EXPECT_EQ(endings(a_.receives()), (Endings{{7, WcStatus::kLocalProtection}}));
}

TEST_P(StoppedTest, AReliableConnectionHasNoSuchState) {
  TestEnd a({.index = 0});
  TestEnd b({.index = 1});
  a.connect(b);
  ASSERT_TRUE(a.post_receive(7).ok());
  ASSERT_TRUE(post_broken_send(a, 1).ok());
  ASSERT_TRUE(a.post_send(2).ok());
  EXPECT_FALSE(a.transmit().has_value());
  EXPECT_EQ(a.qp().state(), kErr);
  EXPECT_EQ(endings(a.sends()),
            (Endings{{1, WcStatus::kLocalProtection}, {2, WcStatus::kFlushed}}));
  EXPECT_EQ(endings(a.receives()), (Endings{{7, WcStatus::kFlushed}}));
}

INSTANTIATE_TEST_SUITE_P(EveryService, StoppedTest, testing::Values(QpType::kUc, QpType::kUd),
                         [](const auto& type) { return type.param == QpType::kUc ? "Uc" : "Ud"; });

TEST(Stopped, AMessageThatFailsHalfwayStopsTheQueue) {
  TestEnd a({.type = QpType::kUc, .index = 0});
  TestEnd b({.type = QpType::kUc, .index = 1});
  a.connect(b);
  b.connect(a);
  ASSERT_TRUE(b.post_receive(7).ok());
  const memory::Sge list[] = {a.sge(0, TestEnd::kMtu),
                              {.address = 0, .octets = 8, .lkey = wire::MemoryKey{1}}};
  ASSERT_TRUE(a.qp().post_send({.wr_id = 1, .list = list}).ok());
  ASSERT_TRUE(a.carry_to(b));
  EXPECT_FALSE(a.transmit().has_value());
  EXPECT_EQ(a.qp().state(), kSqe);
  ASSERT_TRUE(resume(a).ok());
  ASSERT_TRUE(a.post_send(2).ok());
  exchange(a, b);
  EXPECT_EQ(endings(a.sends()),
            (Endings{{1, WcStatus::kLocalProtection}, {2, WcStatus::kSuccess}}));
  EXPECT_EQ(endings(b.receives()), (Endings{{7, WcStatus::kSuccess}}));
}

TEST(Stopped, AFailedBindStopsTheQueue) {
  TestEnd a({.type = QpType::kUc, .index = 0});
  a.connect(a);
  ASSERT_TRUE(a.qp()
                  .post_send({.wr_id = 1,
                              .opcode = SendOpcode::kBindWindow,
                              .bind = {.window_key = wire::MemoryKey{1}}})
                  .ok());
  ASSERT_TRUE(a.post_send(2).ok());
  EXPECT_FALSE(a.transmit().has_value());
  EXPECT_EQ(a.qp().state(), kSqe);
  EXPECT_EQ(endings(a.sends()), (Endings{{1, WcStatus::kWindowBind}, {2, WcStatus::kFlushed}}));
}

}  // namespace
}  // namespace verbatim::transport::test
