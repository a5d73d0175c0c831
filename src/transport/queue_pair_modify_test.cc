// SPDX-License-Identifier: Apache-2.0
// What a modify applies, what it refuses, and what a query returns.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "transport/test_queue_pair.h"

namespace verbatim::transport::test {
namespace {

using wire::Operation;
using wire::Psn;

class ModifyTest : public testing::Test {
 protected:
  void connect() {
    a_.connect(b_);
    b_.connect(a_);
  }
  /// One READ of a single packet, answered.
  void read_once(std::uint64_t wr_id) {
    ASSERT_TRUE(a_.post({.wr_id = wr_id,
                         .opcode = SendOpcode::kRead,
                         .remote_address = TestEnd::address(0),
                         .rkey = b_.key()},
                        1024, 64)
                    .ok());
    exchange(a_, b_);
    ASSERT_EQ(endings(a_.sends()), (Endings{{wr_id, WcStatus::kSuccess}}));
  }
  Status modify(TestEnd& end, QpMask mask, const std::function<void(QpAttributes&)>& change) {
    QpAttributes wanted = end.qp().attributes();
    change(wanted);
    return end.qp().modify(mask, wanted, nullptr);
  }

  TestEnd a_{{.index = 0}};
  TestEnd b_{{.index = 1}};
};

// ---- Applying

TEST_F(ModifyTest, BeginsInResetWithNothingSet) {
  const QpAttributes now = a_.qp().attributes();
  EXPECT_EQ(now.state, QpState::kReset);
  EXPECT_EQ(now.current_state, QpState::kReset);
  EXPECT_EQ(now.access, memory::Access::kNone);
  EXPECT_EQ(now.send_psn, Psn(0));
  EXPECT_EQ(now.receive_psn, Psn(0));
  EXPECT_EQ(now.timeout, 0);
}

TEST_F(ModifyTest, EachStepSetsWhatItNames) {
  a_.wanted.receive_psn = Psn(0x123456);
  a_.wanted.send_psn = Psn(0xfedcba);
  ASSERT_TRUE(a_.step(QpState::kInit).ok());
  EXPECT_EQ(a_.qp().attributes().access, a_.wanted.access);
  EXPECT_EQ(a_.qp().attributes().receive_psn, Psn(0)) << "not named yet";
  ASSERT_TRUE(a_.step(QpState::kReadyToReceive, b_).ok());
  EXPECT_EQ(a_.qp().attributes().receive_psn, Psn(0x123456));
  EXPECT_EQ(a_.qp().attributes().send_psn, Psn(0)) << "not named yet";
  EXPECT_EQ(a_.qp().attributes().timeout, 0) << "not named yet";
  ASSERT_TRUE(a_.step(QpState::kReadyToSend, b_).ok());
  const QpAttributes now = a_.qp().attributes();
  EXPECT_EQ(now.state, QpState::kReadyToSend);
  EXPECT_EQ(now.current_state, QpState::kReadyToSend);
  EXPECT_EQ(now.dest_qp, b_.number());
  EXPECT_EQ(now.path_mtu, wire::PathMtu::k256);
  EXPECT_EQ(now.send_psn, Psn(0xfedcba));
  EXPECT_EQ(now.timeout, 14);
  EXPECT_EQ(now.retry_count, 3);
  EXPECT_EQ(now.rnr_retry, 3);
  EXPECT_EQ(now.min_rnr_timer, 1);
  EXPECT_EQ(now.max_read_atomic, 4);
  EXPECT_EQ(now.max_dest_read_atomic, 4);
  EXPECT_EQ(now.qkey, wire::QKey{}) << "never named";
  EXPECT_EQ(a_.qp().path().destination, b_.gid());
}

TEST_F(ModifyTest, ResetForgetsWhatWasSet) {
  connect();
  ASSERT_TRUE(a_.step(QpState::kReset).ok());
  const QpAttributes now = a_.qp().attributes();
  EXPECT_EQ(now.state, QpState::kReset);
  EXPECT_EQ(now.access, memory::Access::kNone);
  EXPECT_EQ(now.dest_qp, wire::QpNumber{});
  EXPECT_EQ(now.timeout, 0);
  EXPECT_EQ(now.max_dest_read_atomic, 0);
  EXPECT_EQ(a_.qp().path().destination, wire::Gid{});
  EXPECT_EQ(a_.qp().responder_state().access, memory::Access::kNone);
}

TEST_F(ModifyTest, TheFirstPacketHasTheNumberThatWasAskedFor) {
  a_.wanted.send_psn = b_.wanted.receive_psn = Psn(0xffffff);
  connect();
  ASSERT_TRUE(b_.post_receive(1).ok());
  ASSERT_TRUE(a_.post_send(1, TestEnd::kMtu + 1).ok());
  const auto packets = transmit_all(a_);
  ASSERT_EQ(packets.size(), 2U);
  EXPECT_EQ(packets[0].psn(), Psn(0xffffff));
  EXPECT_EQ(packets[1].psn(), Psn(0));
  EXPECT_EQ(packets[0].payload().size(), TestEnd::kMtu);
  EXPECT_EQ(packets[0].view().bth().dest_qp(), b_.number());
  EXPECT_EQ(a_.sent_to().destination, b_.gid());
  for (const auto& packet : packets) b_.handle(packet);
  EXPECT_EQ(b_.receives().size(), 1U);
}

// ---- Refusing

TEST_F(ModifyTest, RefusesInvalidValues) {
  struct Case {
    QpState to;
    std::function<void(QpAttributes&)> spoil;
  };
  const auto rtr = QpState::kReadyToReceive;
  const auto rts = QpState::kReadyToSend;
  const Case cases[] = {
      {rtr, [](auto& w) { w.path_mtu = wire::PathMtu{0}; }},
      {rtr, [](auto& w) { w.path_mtu = wire::PathMtu::k2048; }},  // the port has 1024
      {rtr, [](auto& w) { w.path_mtu = wire::PathMtu{6}; }},
      {rtr, [](auto& w) { w.path_mtu = wire::PathMtu{255}; }},
      {rtr, [](auto& w) { w.max_dest_read_atomic = kMaxReadAtomic + 1; }},
      {rtr, [](auto& w) { w.min_rnr_timer = 32; }},
      {rts, [](auto& w) { w.timeout = 32; }},
      {rts, [](auto& w) { w.retry_count = 8; }},
      {rts, [](auto& w) { w.rnr_retry = 8; }},
      {rts, [](auto& w) { w.max_read_atomic = kMaxReadAtomic + 1; }},
      {rts, [](auto& w) { w.timeout = 255; }},
  };
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    SCOPED_TRACE(i);
    TestEnd end({.index = 0});
    end.connect(b_, cases[i].to == rtr ? QpState::kInit : rtr);
    const QpAttributes good = end.wanted;
    const QpAttributes before = end.qp().attributes();
    cases[i].spoil(end.wanted);
    const Status said = end.step(cases[i].to, b_);
    ASSERT_FALSE(said.ok());
    EXPECT_EQ(said.error(), Errc::kInvalidArgument);
    EXPECT_EQ(end.qp().state(), before.state);
    EXPECT_EQ(end.qp().attributes().dest_qp, before.dest_qp) << "nothing has changed";
    EXPECT_EQ(end.qp().attributes().timeout, before.timeout);
    end.wanted = good;
    EXPECT_TRUE(end.step(cases[i].to, b_).ok());
  }
}

TEST_F(ModifyTest, TakesTheLargestValidValues) {
  a_.wanted.path_mtu = wire::PathMtu::k1024;
  a_.wanted.max_read_atomic = a_.wanted.max_dest_read_atomic = kMaxReadAtomic;
  a_.wanted.min_rnr_timer = 31;
  a_.wanted.timeout = 31;
  a_.wanted.retry_count = a_.wanted.rnr_retry = 7;
  a_.connect(b_);
  EXPECT_EQ(a_.qp().attributes().timeout, 31);
}

TEST_F(ModifyTest, RefusesADestinationBeyondTwentyFourBits) {
  a_.connect(b_, QpState::kInit);
  QpAttributes wanted = a_.wanted;
  wanted.state = QpState::kReadyToReceive;
  wanted.dest_qp = wire::QpNumber{0x0100'0000};
  const Path path = a_.path_to(b_);
  EXPECT_FALSE(a_.qp().modify(mask_to(QpType::kRc, QpState::kReadyToReceive), wanted, &path).ok());
}

TEST_F(ModifyTest, RefusesAMissingAddress) {
  a_.connect(b_, QpState::kInit);
  QpAttributes wanted = a_.wanted;
  wanted.state = QpState::kReadyToReceive;
  EXPECT_FALSE(
      a_.qp().modify(mask_to(QpType::kRc, QpState::kReadyToReceive), wanted, nullptr).ok());
  EXPECT_EQ(a_.qp().state(), QpState::kInit);
}

TEST_F(ModifyTest, RefusesStatesThatDoNotExist) {
  a_.connect(b_);
  for (const int state : {5, 7, 8, 100, 255}) {  // 5: only a failure leads to SQE
    EXPECT_FALSE(modify(a_, QpMask::kState, [&](auto& w) {
                   w.state = QpState(static_cast<std::uint8_t>(state));
                 }).ok());
    EXPECT_EQ(a_.qp().state(), QpState::kReadyToSend);
  }
}

TEST_F(ModifyTest, RefusesACallerThatIsMistakenAboutTheState) {
  connect();
  const auto mask = QpMask::kCurrentState | QpMask::kAccess;
  const auto believe = [](QpState state) {
    return [state](QpAttributes& w) {
      w.current_state = state;
      w.access = memory::Access::kNone;
    };
  };
  EXPECT_FALSE(modify(a_, mask, believe(QpState::kSendQueueDrained)).ok());
  EXPECT_NE(a_.qp().attributes().access, memory::Access::kNone);
  EXPECT_TRUE(modify(a_, mask, believe(QpState::kReadyToSend)).ok());
  EXPECT_EQ(a_.qp().attributes().access, memory::Access::kNone);
}

// ---- Changes take effect

TEST_F(ModifyTest, RightsThatAreTakenAwayAreGone) {
  connect();
  ASSERT_TRUE(modify(b_, QpMask::kAccess, [](auto& w) { w.access = memory::Access::kNone; }).ok());
  EXPECT_EQ(b_.qp().state(), QpState::kReadyToSend);
  ASSERT_TRUE(a_.post({.wr_id = 1,
                       .opcode = SendOpcode::kWrite,
                       .remote_address = TestEnd::address(0),
                       .rkey = b_.key()},
                      0, 8)
                  .ok());
  exchange(a_, b_);
  EXPECT_EQ(endings(a_.sends()), (Endings{{1, WcStatus::kRemoteInvalidRequest}}));
}

TEST_F(ModifyTest, ANewRnrTimerIsInTheNextRnrNak) {
  connect();
  ASSERT_TRUE(modify(b_, QpMask::kMinRnrTimer, [](auto& w) { w.min_rnr_timer = 27; }).ok());
  ASSERT_TRUE(a_.post_send(1).ok());
  ASSERT_TRUE(a_.carry_to(b_));
  const auto answer = b_.transmit();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->view().aeth().syndrome, wire::Syndrome::rnr(27));
}

TEST_F(ModifyTest, SilenceIsALossAfterTheTimeout) {
  constexpr Duration kUnit{4096};
  for (const int timeout : {1, 14, 31}) {
    TestEnd end({.index = 0});
    end.wanted.timeout = static_cast<std::uint8_t>(timeout);
    end.connect(b_);
    ASSERT_TRUE(end.post_send(1).ok());
    EXPECT_EQ(end.qp().next_timeout(), Instant::never()) << "nothing was sent yet";
    const auto now = Instant::at(std::chrono::seconds(5));
    ASSERT_TRUE(end.transmit(now).has_value());
    EXPECT_EQ(end.qp().next_timeout(), now + kUnit * (1LL << timeout));
  }
}

TEST_F(ModifyTest, WithoutTimeoutSilenceIsNeverALoss) {
  a_.wanted.timeout = 0;
  connect();
  ASSERT_TRUE(a_.post_send(1).ok());
  ASSERT_TRUE(a_.transmit().has_value());
  EXPECT_EQ(a_.qp().next_timeout(), Instant::never());
  a_.qp().handle_timeout(Instant::at(std::chrono::hours(1000)));
  EXPECT_FALSE(a_.transmit().has_value());
}

TEST_F(ModifyTest, EveryRetryCounts) {
  a_.wanted.retry_count = 2;
  connect();
  ASSERT_TRUE(a_.post_send(1).ok());
  Instant now{};
  int sent = 0;
  while (a_.qp().state() == QpState::kReadyToSend) {
    if (a_.transmit(now).has_value()) ++sent;
    now = a_.qp().next_timeout();
    ASSERT_NE(now, Instant::never());
    a_.qp().handle_timeout(now);
  }
  EXPECT_EQ(sent, 3);
  EXPECT_EQ(endings(a_.sends()), (Endings{{1, WcStatus::kRetryExceeded}}));
}

TEST_F(ModifyTest, ADrainedQueueMayBeGivenAnotherPath) {
  connect();
  TestEnd elsewhere({.index = 5});
  const Path path = a_.path_to(elsewhere);
  ASSERT_TRUE(a_.step(QpState::kSendQueueDrained).ok());
  QpAttributes wanted = a_.qp().attributes();
  wanted.timeout = 20;
  ASSERT_TRUE(a_.qp().modify(QpMask::kAddress | QpMask::kTimeout, wanted, &path).ok());
  EXPECT_EQ(a_.qp().state(), QpState::kSendQueueDrained);
  EXPECT_EQ(a_.qp().attributes().timeout, 20);
  ASSERT_TRUE(modify(a_, QpMask::kState, [](auto& w) { w.state = QpState::kReadyToSend; }).ok());
  ASSERT_TRUE(a_.post_send(1).ok());
  ASSERT_TRUE(a_.transmit().has_value());
  EXPECT_EQ(a_.sent_to().destination, elsewhere.gid());
  EXPECT_EQ(a_.qp().next_timeout(), Instant::at(Duration(4096LL << 20)));
}

TEST_F(ModifyTest, AResponderMayRememberLessThanItHas) {
  connect();
  for (std::uint64_t i = 0; i < 4; ++i) read_once(i);
  ASSERT_EQ(b_.qp().responder_state().replay_count, 4U);
  ASSERT_TRUE(b_.step(QpState::kSendQueueDrained).ok());
  ASSERT_TRUE(
      modify(b_, QpMask::kMaxDestReadAtomic, [](auto& w) { w.max_dest_read_atomic = 1; }).ok());
  for (std::uint64_t i = 0; i < 40; ++i) {
    read_once(i);
    EXPECT_LE(b_.qp().responder_state().replay_count, 1U);
  }
}

// ---- A query returns the present sequence numbers

TEST_F(ModifyTest, AQueryReturnsTheNextNumbersOfBothDirections) {
  a_.wanted.send_psn = b_.wanted.receive_psn = Psn(0x1000);
  a_.wanted.receive_psn = b_.wanted.send_psn = Psn(0x2000);
  connect();
  ASSERT_TRUE(b_.post_receive(1).ok());
  ASSERT_TRUE(a_.post_send(1, 3 * TestEnd::kMtu).ok());
  exchange(a_, b_);
  ASSERT_TRUE(b_.post({.wr_id = 2,
                       .opcode = SendOpcode::kRead,
                       .remote_address = TestEnd::address(0),
                       .rkey = a_.key()},
                      0, 5 * TestEnd::kMtu)
                  .ok());
  exchange(a_, b_);
  EXPECT_EQ(a_.qp().attributes().send_psn, Psn(0x1003));
  EXPECT_EQ(b_.qp().attributes().receive_psn, Psn(0x1003));
  EXPECT_EQ(b_.qp().attributes().send_psn, Psn(0x2005));
  EXPECT_EQ(a_.qp().attributes().receive_psn, Psn(0x2005));
  for (const auto state : {QpState::kSendQueueDrained, QpState::kError}) {
    ASSERT_TRUE(a_.step(state).ok());
    EXPECT_EQ(a_.qp().attributes().send_psn, Psn(0x1003));
    EXPECT_EQ(a_.qp().attributes().receive_psn, Psn(0x2005));
  }
}

TEST_F(ModifyTest, AQueryOfADatagramQueuePairReturnsItsNextNumber) {
  TestEnd end({.type = QpType::kUd, .index = 0});
  end.wanted.send_psn = Psn(7);
  end.connect(end);
  ASSERT_TRUE(end.post_send(1).ok());
  ASSERT_TRUE(end.transmit().has_value());
  EXPECT_EQ(end.qp().attributes().send_psn, Psn(8));
  EXPECT_EQ(end.qp().attributes().qkey, end.wanted.qkey);
  ASSERT_TRUE(post_broken_send(end, 2).ok());
  EXPECT_FALSE(end.transmit().has_value());
  ASSERT_EQ(end.qp().state(), QpState::kSendQueueError);
  EXPECT_EQ(end.qp().attributes().send_psn, Psn(8));
}

TEST_F(ModifyTest, ADatagramIsAsLongAsThePortAllows) {
  TestEnd end({.type = QpType::kUd, .index = 0});
  end.connect(end);
  EXPECT_TRUE(end.post_send(1, 1024).ok());
  EXPECT_TRUE(end.post_send(2, 1025).ok());
  while (end.transmit().has_value()) {
  }
  const auto sends = end.sends();
  ASSERT_EQ(sends.size(), 2U);
  EXPECT_EQ(sends[0].status, WcStatus::kSuccess);
  EXPECT_EQ(sends[1].status, WcStatus::kLocalLength);
  EXPECT_EQ(end.qp().state(), QpState::kSendQueueError);
}

TEST_F(ModifyTest, ANewQKeyIsUsedAtOnce) {
  TestEnd end({.type = QpType::kUd, .index = 0});
  end.connect(end);
  ASSERT_TRUE(end.post_receive(1).ok());
  ASSERT_TRUE(modify(end, QpMask::kQKey, [](auto& w) { w.qkey = wire::QKey{0x8000'0001}; }).ok());
  wire::PacketHeaders headers;
  headers.deth.qkey = wire::QKey{0x1111};
  end.handle(end.packet(Operation::kSendOnly, headers));
  EXPECT_EQ(end.qp().receiver().ud().counters().wrong_qkey, 1U);
  end.wanted.qkey = wire::QKey{0x8000'0000};  // bit 31: "the queue pair's own"
  ASSERT_TRUE(end.post_send(2).ok());
  ASSERT_TRUE(end.carry_to(end));
  EXPECT_EQ(endings(end.receives()), (Endings{{1, WcStatus::kSuccess}}));
}

}  // namespace
}  // namespace verbatim::transport::test
