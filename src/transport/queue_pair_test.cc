// SPDX-License-Identifier: Apache-2.0
#include "transport/queue_pair_machine.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transport/test_queue_pair.h"

namespace verbatim::transport::test {
namespace {

using wire::Operation;
using wire::Psn;

/// Two ends of one connection, or two that exchange datagrams.
struct Pair {
  explicit Pair(QpType type = QpType::kRc, bool shared = false)
      : a({.type = type, .index = 0}), b({.type = type, .index = 1, .has_shared_queue = shared}) {}
  void connect() {
    a.connect(b);
    b.connect(a);
  }
  TestEnd a;
  TestEnd b;
};

wire::PacketHeaders request_headers(std::uint32_t psn = 0) {
  wire::PacketHeaders headers;
  headers.bth.psn = Psn(psn);
  headers.bth.ack_request = true;
  headers.deth = {.qkey = wire::QKey{0x1111}, .source_qp = wire::QpNumber{0x12}};
  return headers;
}

TestPacket acknowledge(const TestEnd& to, std::uint32_t psn) {
  wire::PacketHeaders headers;
  headers.bth.psn = Psn(psn);
  headers.aeth = {.syndrome = wire::Syndrome::ack(), .msn = 1};
  return to.packet(Operation::kAcknowledge, headers);
}

// ---- What each state allows (IBA Vol 1, 10.3.1)

/// Brings a fresh queue pair into a state the way a program would.
void bring_to(TestEnd& end, TestEnd& peer, QpState state) {
  switch (state) {
    case QpState::kReset:
      return;
    case QpState::kInit:
    case QpState::kReadyToReceive:
    case QpState::kReadyToSend:
      end.connect(peer, state);
      return;
    case QpState::kSendQueueDrained:
    case QpState::kError:
      end.connect(peer);
      ASSERT_TRUE(end.step(state).ok());
      return;
    case QpState::kSendQueueError:
      end.connect(peer);
      ASSERT_TRUE(post_broken_send(end, 99).ok());
      EXPECT_FALSE(end.transmit().has_value());
      ASSERT_EQ(endings(end.sends()), (Endings{{99, WcStatus::kLocalProtection}}));
      return;
  }
}

enum class Posted : std::uint8_t { kRefused, kTaken, kFlushed };
struct StateRow {
  QpState state;
  Posted receive;
  Posted send;
  bool sends;  // what was posted is also sent
  bool takes_requests;
  bool takes_responses;
};
constexpr StateRow kStates[] = {
    {QpState::kReset, Posted::kRefused, Posted::kRefused, false, false, false},
    {QpState::kInit, Posted::kTaken, Posted::kRefused, false, false, false},
    {QpState::kReadyToReceive, Posted::kTaken, Posted::kRefused, false, true, false},
    {QpState::kReadyToSend, Posted::kTaken, Posted::kTaken, true, true, true},
    {QpState::kSendQueueDrained, Posted::kTaken, Posted::kTaken, false, true, true},
    {QpState::kSendQueueError, Posted::kTaken, Posted::kFlushed, false, true, false},
    {QpState::kError, Posted::kFlushed, Posted::kFlushed, false, false, false},
};

class QueuePairStates : public testing::TestWithParam<QpType> {
 protected:
  template <typename Check>
  void in_every_state(Check&& check) {
    for (const StateRow& row : kStates) {
      const bool has_sqe = GetParam() != QpType::kRc;
      if (row.state == QpState::kSendQueueError && !has_sqe) continue;
      SCOPED_TRACE("state " + std::to_string(static_cast<int>(row.state)));
      Pair pair(GetParam());
      bring_to(pair.a, pair.b, row.state);
      ASSERT_EQ(pair.a.qp().state(), row.state);
      check(row, pair);
    }
  }
};

TEST_P(QueuePairStates, TakeReceivesAsTheTableSays) {
  in_every_state([](const StateRow& row, Pair& pair) {
    const Status posted = pair.a.post_receive(1);
    EXPECT_EQ(posted.ok(), row.receive != Posted::kRefused);
    EXPECT_TRUE(posted.ok() || posted.error() == Errc::kInvalidArgument);
    const Endings flushed{{1, WcStatus::kFlushed}};
    EXPECT_EQ(endings(pair.a.receives()), row.receive == Posted::kFlushed ? flushed : Endings{});
  });
}

TEST_P(QueuePairStates, TakeSendsAsTheTableSays) {
  in_every_state([](const StateRow& row, Pair& pair) {
    const Status posted = pair.a.post_send(1, 8, &pair.b);
    EXPECT_EQ(posted.ok(), row.send != Posted::kRefused);
    EXPECT_TRUE(posted.ok() || posted.error() == Errc::kInvalidArgument);
    const Endings flushed{{1, WcStatus::kFlushed}};
    EXPECT_EQ(endings(pair.a.sends()), row.send == Posted::kFlushed ? flushed : Endings{});
    EXPECT_EQ(pair.a.transmit().has_value(), row.sends);
  });
}

TEST_P(QueuePairStates, TakeRequestsAsTheTableSays) {
  in_every_state([](const StateRow& row, Pair& pair) {
    const bool posted = pair.a.post_receive(1).ok();
    (void)pair.a.receives();
    const std::vector<std::byte> payload(16);
    pair.a.handle(pair.a.packet(Operation::kSendOnly, request_headers(), payload));
    EXPECT_EQ(endings(pair.a.receives()),
              row.takes_requests ? (Endings{{1, WcStatus::kSuccess}}) : Endings{});
    EXPECT_EQ(pair.a.qp().receiver().dropped(PacketDrop::kWrongState),
              row.takes_requests ? 0U : 1U);
    EXPECT_EQ(pair.a.transmit().has_value(), row.takes_requests && GetParam() == QpType::kRc);
    EXPECT_TRUE(posted || row.state == QpState::kReset);
  });
}

TEST_P(QueuePairStates, TakeResponsesAsTheTableSays) {
  if (GetParam() != QpType::kRc) return;  // the others have none
  in_every_state([](const StateRow& row, Pair& pair) {
    pair.a.handle(acknowledge(pair.a, 5));
    EXPECT_EQ(pair.a.qp().receiver().dropped(PacketDrop::kWrongState),
              row.takes_responses ? 0U : 1U);
    EXPECT_EQ(pair.a.qp().sender().requester().counters().ghosts, row.takes_responses ? 1U : 0U);
  });
}

TEST_P(QueuePairStates, SleepUnlessSomethingIsOnItsWay) {
  in_every_state([](const StateRow&, Pair& pair) {
    EXPECT_EQ(pair.a.qp().next_timeout(), Instant::never());
    pair.a.qp().handle_timeout(Instant::at(std::chrono::hours(1)));
    EXPECT_EQ(pair.a.qp().in_flight(), 0U);
    EXPECT_FALSE(pair.a.transmit().has_value());
    EXPECT_TRUE(pair.a.events().empty());
  });
}

INSTANTIATE_TEST_SUITE_P(EveryService, QueuePairStates,
                         testing::Values(QpType::kRc, QpType::kUc, QpType::kUd),
                         [](const auto& type) {
                           switch (type.param) {
                             case QpType::kRc:
                               return "Rc";
                             case QpType::kUc:
                               return "Uc";
                             default:
                               return "Ud";
                           }
                         });

// ---- Data goes both ways

TEST(QueuePairMachine, CarriesAMessageOfEveryService) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    SCOPED_TRACE(static_cast<int>(type));
    Pair pair(type);
    pair.connect();
    const bool is_datagram = type == QpType::kUd;
    const std::uint32_t count = is_datagram ? 200 : 1000;
    for (std::size_t i = 0; i < count; ++i) pair.a.octets(0, count)[i] = std::byte(i);
    ASSERT_TRUE(pair.b.post_receive(7, 4096, 1040).ok());
    ASSERT_TRUE(pair.a.post_send(3, count, &pair.b).ok());
    exchange(pair.a, pair.b);
    EXPECT_EQ(endings(pair.a.sends()), (Endings{{3, WcStatus::kSuccess}}));
    const auto received = pair.b.receives();
    ASSERT_EQ(endings(received), (Endings{{7, WcStatus::kSuccess}}));
    EXPECT_EQ(received[0].octets, is_datagram ? count + 40 : count);
    EXPECT_EQ(received[0].qp, pair.b.number());
    EXPECT_EQ(received[0].source_qp, is_datagram ? pair.a.number() : wire::QpNumber{});
    EXPECT_TRUE(std::ranges::equal(pair.a.octets(0, count),
                                   pair.b.octets(is_datagram ? 4096 + 40 : 4096, count)));
  }
}

TEST(QueuePairMachine, CountsWhatItSendsAndWhatItServes) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    SCOPED_TRACE(static_cast<int>(type));
    Pair pair(type);
    pair.connect();
    const bool is_datagram = type == QpType::kUd;
    const std::uint32_t octets = is_datagram ? 200 : 1000;
    for (std::uint64_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(pair.b.post_receive(i, 4096, 1040).ok());
      ASSERT_TRUE(pair.a.post_send(i, octets, &pair.b).ok());
    }
    exchange(pair.a, pair.b);
    const Traffic sent = traffic_of(pair.a.qp());
    EXPECT_EQ(sent.messages, 3U);
    EXPECT_EQ(sent.octets, 3U * octets);
    EXPECT_EQ(sent.packets, is_datagram ? 3U : 3U * 4U);
    EXPECT_EQ(sent.repeats, 0U);
    EXPECT_EQ(sent.served_messages, 0U);
    const Traffic served = traffic_of(pair.b.qp());
    EXPECT_EQ(served.messages, 0U);
    EXPECT_EQ(served.served_messages, 3U);
    EXPECT_EQ(served.served_octets, 3U * octets);
  }
}

TEST(QueuePairMachine, CountsAReadWhereItIsAskedAndWhereItIsServed) {
  Pair pair;
  pair.connect();
  const std::uint32_t octets = 5 * TestEnd::kMtu + 3;
  ASSERT_TRUE(pair.b
                  .post({.wr_id = 1,
                         .opcode = SendOpcode::kRead,
                         .remote_address = TestEnd::address(0),
                         .rkey = pair.a.key()},
                        0, octets)
                  .ok());
  exchange(pair.a, pair.b);
  EXPECT_EQ(traffic_of(pair.b.qp()).messages, 1U);
  EXPECT_EQ(traffic_of(pair.b.qp()).octets, octets);
  EXPECT_EQ(traffic_of(pair.a.qp()).served_messages, 1U);
  EXPECT_EQ(traffic_of(pair.a.qp()).served_octets, octets);
}

TEST(QueuePairMachine, BothEndsMaySendAtOnce) {
  Pair pair;
  pair.connect();
  for (std::uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(pair.a.post_receive(i).ok());
    ASSERT_TRUE(pair.b.post_receive(i).ok());
    ASSERT_TRUE(pair.a.post_send(i, 700).ok());
    ASSERT_TRUE(pair.b.post_send(i, 700).ok());
  }
  exchange(pair.a, pair.b);
  for (TestEnd* end : {&pair.a, &pair.b}) {
    EXPECT_EQ(end->sends().size(), 10U);
    EXPECT_EQ(end->receives().size(), 10U);
    EXPECT_EQ(end->qp().state(), QpState::kReadyToSend);
  }
}

TEST(QueuePairMachine, MayBeConnectedToItself) {
  TestEnd end({.depth = 32});
  end.connect(end);
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(end.post_receive(i, 8192).ok());
  for (std::size_t i = 0; i < 600; ++i) end.octets(0, 600)[i] = std::byte(i * 3);
  const auto post = [&](std::uint64_t wr_id, SendOpcode opcode, std::size_t remote,
                        std::uint32_t count) {
    ASSERT_TRUE(end.post({.wr_id = wr_id,
                          .opcode = opcode,
                          .remote_address = TestEnd::address(remote),
                          .rkey = end.key(),
                          .compare_or_add = 5},
                         0, count)
                    .ok());
  };
  post(1, SendOpcode::kSend, 0, 600);
  post(2, SendOpcode::kWrite, 16384, 600);
  post(3, SendOpcode::kWriteImm, 20480, 600);
  post(4, SendOpcode::kRead, 16384, 600);
  post(5, SendOpcode::kFetchAdd, 30000, 8);
  while (end.carry_to(end)) {
  }
  EXPECT_EQ(endings(end.sends()), (Endings{{1, WcStatus::kSuccess},
                                           {2, WcStatus::kSuccess},
                                           {3, WcStatus::kSuccess},
                                           {4, WcStatus::kSuccess},
                                           {5, WcStatus::kSuccess}}));
  EXPECT_EQ(end.receives().size(), 2U);
  EXPECT_EQ(end.octets(30000, 1)[0], std::byte{5});
  EXPECT_TRUE(std::ranges::equal(end.octets(8192, 600), end.octets(16384, 600)));
}

TEST(QueuePairMachine, AFailureOfOneConnectedToItselfEndsIt) {
  TestEnd end({});
  end.connect(end);
  ASSERT_TRUE(end.post_receive(7).ok());
  ASSERT_TRUE(end.post({.wr_id = 1,
                        .opcode = SendOpcode::kWrite,
                        .remote_address = 0,
                        .rkey = wire::MemoryKey{0xbad00}},
                       0, 8)
                  .ok());
  ASSERT_TRUE(end.post_send(2).ok());
  while (end.carry_to(end)) {
  }
  EXPECT_EQ(end.qp().state(), QpState::kError);
  EXPECT_EQ(endings(end.receives()), (Endings{{7, WcStatus::kFlushed}}));
  // The responder's own failure comes first: when the refusal arrives, no request waits for it.
  EXPECT_EQ(endings(end.sends()), (Endings{{1, WcStatus::kFlushed}, {2, WcStatus::kFlushed}}));
  EXPECT_EQ(end.events(), Events{QpEvent::kAccessError});
}

TEST(QueuePairMachine, AnswersAndRequestsTakeTurns) {
  Pair pair;
  pair.connect();
  ASSERT_TRUE(pair.b
                  .post({.wr_id = 1,
                         .opcode = SendOpcode::kRead,
                         .remote_address = TestEnd::address(0),
                         .rkey = pair.a.key()},
                        0, 8 * TestEnd::kMtu)
                  .ok());
  ASSERT_TRUE(pair.b.carry_to(pair.a));
  ASSERT_TRUE(pair.a
                  .post({.wr_id = 2,
                         .opcode = SendOpcode::kWrite,
                         .remote_address = TestEnd::address(0),
                         .rkey = pair.b.key()},
                        0, 8 * TestEnd::kMtu)
                  .ok());
  int in_a_row = 0;
  bool was_response = false;
  for (const TestPacket& packet : transmit_all(pair.a)) {
    const bool is_response = packet.view().info().is_response;
    in_a_row = is_response == was_response ? in_a_row + 1 : 1;
    was_response = is_response;
    EXPECT_LE(in_a_row, 1);
  }
}

// ---- Signalling

TEST(QueuePairMachine, HasNoMoreWhenThereIsNothingToSend) {
  Pair ends;
  ends.connect();
  ASSERT_TRUE(ends.b.post_receive(1).ok());
  EXPECT_FALSE(ends.a.qp().may_have_more());
  ASSERT_TRUE(ends.a.post_send(2).ok());
  EXPECT_TRUE(ends.a.qp().may_have_more());
  ASSERT_TRUE(ends.a.carry_to(ends.b));
  EXPECT_FALSE(ends.a.qp().may_have_more()) << "all is on its way";
  EXPECT_TRUE(ends.b.qp().may_have_more()) << "it owes an acknowledgement";
  ASSERT_TRUE(ends.b.carry_to(ends.a));
  EXPECT_FALSE(ends.b.qp().may_have_more());
}

TEST(QueuePairMachine, OnlySignaledSendsCompleteUnlessAllDo) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    TestEnd a({.type = type, .index = 0, .signal_all = false});
    TestEnd b({.type = type, .index = 1});
    a.connect(b);
    b.connect(a);
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(b.post_receive(i).ok());
    for (std::uint64_t i = 0; i < 3; ++i) {
      const auto flags = i == 1 ? SendFlags::kSignaled : SendFlags::kNone;
      ASSERT_TRUE(a.post({.wr_id = i, .flags = flags}, 0, 8, &b).ok());
    }
    exchange(a, b);
    EXPECT_EQ(endings(a.sends()), (Endings{{1, WcStatus::kSuccess}}));
    EXPECT_EQ(b.receives().size(), 3U);
    ASSERT_TRUE(a.step(QpState::kError).ok());
    ASSERT_TRUE(a.post({.wr_id = 9}, 0, 8, &b).ok());
    EXPECT_EQ(endings(a.sends()), (Endings{{9, WcStatus::kFlushed}})) << "failures always do";
  }
}

TEST(QueuePairMachine, AnUncollectedCompletionKeepsItsPlaceInTheQueue) {
  TestEnd a({.index = 0, .depth = 4});
  TestEnd b({.index = 1, .depth = 4});
  a.connect(b);
  b.connect(a);
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(b.post_receive(i).ok());
    ASSERT_TRUE(a.post_send(i).ok());
  }
  EXPECT_FALSE(a.qp().sender().has_room_for(1));
  exchange(a, b);
  EXPECT_TRUE(a.qp().has_no_sends());
  EXPECT_EQ(a.post_send(9).error(), Errc::kNoMemory);
  EXPECT_EQ(b.post_receive(9).error(), Errc::kNoMemory);
  EXPECT_EQ(a.sends().size(), 4U);
  EXPECT_EQ(b.receives().size(), 4U);
  EXPECT_TRUE(a.qp().sender().has_room_for(4));
  EXPECT_TRUE(a.post_send(9).ok());
  EXPECT_TRUE(b.post_receive(9).ok());
}

// ---- ERR and RESET

TEST(QueuePairMachine, ErrFlushesSendsAndReceivesInOrder) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    SCOPED_TRACE(static_cast<int>(type));
    Pair pair(type);
    pair.connect();
    for (std::uint64_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(pair.a.post_receive(10 + i).ok());
      ASSERT_TRUE(pair.a.post_send(i, 8, &pair.b).ok());
    }
    ASSERT_TRUE(pair.a.step(QpState::kError).ok());
    const auto flushed = [](std::uint64_t first) {
      Endings all;
      for (std::uint64_t i = 0; i < 4; ++i) all.push_back({first + i, WcStatus::kFlushed});
      return all;
    };
    const auto sends = pair.a.sends();
    const auto receives = pair.a.receives();
    EXPECT_EQ(endings(sends), flushed(0));
    EXPECT_EQ(endings(receives), flushed(10));
    for (const Completion& each : sends) EXPECT_EQ(each.qp, pair.a.number());
    for (const Completion& each : receives) EXPECT_EQ(each.qp, pair.a.number());
    EXPECT_TRUE(pair.a.events().empty());
    EXPECT_FALSE(pair.a.transmit().has_value());
    EXPECT_TRUE(pair.a.step(QpState::kError).ok()) << "ERR again is no change";
    EXPECT_TRUE(pair.a.sends().empty());
  }
}

TEST(QueuePairMachine, FlushCompletionsNameTheQueuePairInEveryState) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    for (const auto from : {QpState::kInit, QpState::kReadyToReceive, QpState::kReadyToSend}) {
      Pair pair(type);
      pair.a.connect(pair.b, from);
      ASSERT_TRUE(pair.a.step(QpState::kError).ok());
      ASSERT_TRUE(pair.a.post_send(1, 8, &pair.b).ok());
      ASSERT_TRUE(pair.a.post_receive(2).ok());
      const auto sends = pair.a.sends();
      const auto receives = pair.a.receives();
      ASSERT_EQ(endings(sends), (Endings{{1, WcStatus::kFlushed}}));
      ASSERT_EQ(endings(receives), (Endings{{2, WcStatus::kFlushed}}));
      EXPECT_EQ(sends[0].qp, pair.a.number());
      EXPECT_EQ(receives[0].qp, pair.a.number());
    }
  }
}

TEST(QueuePairMachine, ModifyToErrDropsOwedAnswers) {
  Pair pair;
  pair.connect();
  ASSERT_TRUE(pair.b.post_receive(1).ok());
  ASSERT_TRUE(pair.a.post_send(1).ok());
  ASSERT_TRUE(pair.a
                  .post({.wr_id = 2,
                         .opcode = SendOpcode::kRead,
                         .remote_address = TestEnd::address(0),
                         .rkey = pair.b.key()},
                        0, 600)
                  .ok());
  ASSERT_TRUE(pair.a.carry_to(pair.b));
  ASSERT_TRUE(pair.a.carry_to(pair.b));
  ASSERT_TRUE(pair.b.step(QpState::kError).ok());
  EXPECT_FALSE(pair.b.transmit().has_value());
}

TEST(QueuePairMachine, AMessageThatWasArrivingIsFlushedWithItsReceive) {
  Pair pair;
  pair.connect();
  ASSERT_TRUE(pair.b.post_receive(1).ok());
  ASSERT_TRUE(pair.b.post_receive(2).ok());
  ASSERT_TRUE(pair.a.post_send(3, 3 * TestEnd::kMtu).ok());
  ASSERT_TRUE(pair.a.carry_to(pair.b));
  ASSERT_TRUE(pair.b.step(QpState::kError).ok());
  EXPECT_EQ(endings(pair.b.receives()),
            (Endings{{1, WcStatus::kFlushed}, {2, WcStatus::kFlushed}}));
}

TEST(QueuePairMachine, ResetForgetsWithoutCompletions) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    SCOPED_TRACE(static_cast<int>(type));
    Pair pair(type);
    pair.connect();
    ASSERT_TRUE(pair.a.post_receive(1).ok());
    ASSERT_TRUE(pair.b.post_receive(2).ok());
    ASSERT_TRUE(pair.a.post_send(3, 8, &pair.b).ok());
    exchange(pair.a, pair.b);
    ASSERT_TRUE(pair.a.post_send(4, 8, &pair.b).ok());
    ASSERT_TRUE(pair.a.post_send(5, 8, &pair.b).ok());
    ASSERT_TRUE(pair.a.transmit().has_value());
    const bool was_sent = type != QpType::kRc;  // unreliable services complete it when it is sent
    ASSERT_TRUE(pair.a.step(QpState::kReset).ok());
    EXPECT_EQ(pair.a.qp().state(), QpState::kReset);
    EXPECT_EQ(pair.a.qp().in_flight(), 0U);
    EXPECT_TRUE(pair.a.qp().has_no_sends());
    EXPECT_FALSE(pair.a.transmit().has_value());
    EXPECT_EQ(pair.a.sends().size(), was_sent ? 2U : 1U) << "what had completed stays";
    EXPECT_TRUE(pair.a.receives().empty());
    EXPECT_TRUE(pair.a.events().empty());
  }
}

TEST(QueuePairMachine, ResetGivesASharedReceiveBack) {
  Pair pair(QpType::kRc, true);
  pair.connect();
  for (std::uint64_t i = 0; i < 16; ++i) ASSERT_TRUE(pair.b.post_receive(i).ok());
  ASSERT_TRUE(pair.a.post_send(3, 3 * TestEnd::kMtu).ok());
  ASSERT_TRUE(pair.a.carry_to(pair.b));
  EXPECT_EQ(pair.b.shared().waiting_count(), 15U);
  EXPECT_FALSE(pair.b.post_receive(16).ok());
  ASSERT_TRUE(pair.b.step(QpState::kReset).ok());
  EXPECT_TRUE(pair.b.receives().empty());
  EXPECT_EQ(pair.b.shared().waiting_count(), 16U) << "it waits for another message";
  EXPECT_FALSE(pair.b.post_receive(16).ok());
}

TEST(QueuePairMachine, ServesAgainAfterReset) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    for (const bool failed : {false, true}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(type)) + (failed ? " failed" : ""));
      Pair pair(type);
      pair.connect();
      ASSERT_TRUE(pair.b.post_receive(4).ok());
      if (failed) {
        ASSERT_TRUE(post_broken_send(pair.a, 1).ok());
        EXPECT_FALSE(pair.a.transmit().has_value());
        ASSERT_TRUE(pair.a.step(QpState::kError).ok());
      } else {
        ASSERT_TRUE(pair.a.post_send(1, 8, &pair.b).ok());
        EXPECT_TRUE(pair.a.transmit().has_value());
      }
      for (TestEnd* end : {&pair.a, &pair.b}) {
        ASSERT_TRUE(end->step(QpState::kReset).ok());
        (void)end->sends();
        (void)end->receives();
      }
      ASSERT_TRUE(pair.a.step(QpState::kInit).ok());
      ASSERT_EQ(pair.a.qp().state(), QpState::kInit);
      ASSERT_TRUE(pair.a.step(QpState::kReadyToReceive, pair.b).ok());
      ASSERT_EQ(pair.a.qp().state(), QpState::kReadyToReceive);
      ASSERT_TRUE(pair.a.step(QpState::kReadyToSend, pair.b).ok());
      ASSERT_EQ(pair.a.qp().state(), QpState::kReadyToSend);
      pair.b.connect(pair.a);
      ASSERT_TRUE(pair.b.post_receive(5).ok());
      ASSERT_TRUE(pair.a.post_send(6, 8, &pair.b).ok());
      exchange(pair.a, pair.b);
      EXPECT_EQ(endings(pair.a.sends()), (Endings{{6, WcStatus::kSuccess}}));
      EXPECT_EQ(endings(pair.b.receives()), (Endings{{5, WcStatus::kSuccess}}));
    }
  }
}

// ---- Packets for another queue pair

TEST(QueuePairMachine, DropsWhatIsNotFromItsPeer) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    Pair pair(type);
    pair.connect();
    ASSERT_TRUE(pair.a.post_receive(1).ok());
    TestEnd stranger({.type = type, .index = 7});
    const auto packet = pair.a.packet(Operation::kSendOnly, request_headers());
    pair.a.handle(packet, stranger.gid(), pair.a.gid());
    pair.a.handle(packet, pair.b.gid(), stranger.gid());
    pair.a.handle(packet, pair.a.gid(), pair.b.gid());
    EXPECT_EQ(pair.a.qp().receiver().dropped(PacketDrop::kWrongSource), 3U);
    EXPECT_TRUE(pair.a.receives().empty());
    EXPECT_TRUE(pair.a.events().empty());
    EXPECT_FALSE(pair.a.transmit().has_value());
    pair.a.handle(packet, pair.b.gid(), pair.a.gid());
    EXPECT_EQ(pair.a.receives().size(), 1U);
  }
}

TEST(QueuePairMachine, ADatagramMayComeFromAnywhere) {
  Pair pair(QpType::kUd);
  pair.connect();
  ASSERT_TRUE(pair.a.post_receive(1).ok());
  TestEnd stranger({.type = QpType::kUd, .index = 7});
  pair.a.handle(pair.a.packet(Operation::kSendOnly, request_headers()), stranger.gid(),
                pair.a.gid());
  EXPECT_EQ(pair.a.receives().size(), 1U);
}

TEST(QueuePairMachine, DropsWhatIsOfAnotherService) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    Pair pair(type);
    pair.connect();
    ASSERT_TRUE(pair.a.post_receive(1).ok());
    std::uint64_t foreign = 0;
    for (const auto other : {wire::Transport::kRc, wire::Transport::kUc, wire::Transport::kUd,
                             wire::Transport::kXrc}) {
      if (other == transport_of(type)) continue;
      auto headers = request_headers();
      headers.bth.opcode = wire::opcode_of(other, Operation::kSendOnly);
      pair.a.handle(TestPacket(headers));
      EXPECT_EQ(pair.a.qp().receiver().dropped(PacketDrop::kWrongTransport), ++foreign);
    }
    EXPECT_TRUE(pair.a.receives().empty());
    EXPECT_TRUE(pair.a.events().empty());
  }
}

TEST(QueuePairMachine, CountsCongestionNotifications) {
  Pair pair;
  pair.a.connect(pair.b, QpState::kReadyToReceive);
  wire::PacketHeaders headers;
  headers.bth.opcode = wire::Opcode::kCnp;
  headers.bth.becn = true;
  const TestPacket notification(headers);
  pair.a.handle(notification);
  EXPECT_EQ(pair.a.qp().sender().requester().rate().notification_count(), 1U);
  EXPECT_TRUE(pair.a.events().empty()) << "it is no request";
  ASSERT_TRUE(pair.a.step(QpState::kReadyToSend, pair.b).ok());
  pair.a.handle(notification);
  pair.a.handle(notification, pair.a.gid(), pair.b.gid());
  EXPECT_EQ(pair.a.qp().sender().requester().rate().notification_count(), 2U);
  EXPECT_EQ(pair.a.qp().receiver().dropped(PacketDrop::kWrongSource), 1U);
  EXPECT_FALSE(pair.a.transmit().has_value());
}

/// It has no Q_Key that could be compared.
TEST(QueuePairMachine, ADatagramQueuePairCountsCongestionNotifications) {
  Pair pair(QpType::kUd);
  pair.a.connect(pair.b, QpState::kReadyToSend);
  wire::PacketHeaders headers;
  headers.bth.opcode = wire::Opcode::kCnp;
  const TestPacket notification(headers);
  const std::array<std::byte, kGrhOctets> header{};
  EXPECT_FALSE(pair.a.qp().is_addressed_by({.packet = notification.view(),
                                            .source = pair.b.gid(),
                                            .destination = pair.a.gid(),
                                            .network_header = header}));
  pair.a.handle(notification);
  EXPECT_EQ(pair.a.qp().sender().requester().rate().notification_count(), 1U);
}

// ---- XRC initiators and targets

TEST(QueuePairMachine, AnXrcInitiatorTakesNoRequests) {
  TestEnd end({.type = QpType::kXrcInitiator});
  using enum QpMask;
  end.wanted.state = QpState::kInit;
  ASSERT_TRUE(end.qp().modify(kState | kPKeyIndex | kPort | kAccess, end.wanted, nullptr).ok());
  end.wanted.state = QpState::kReadyToReceive;
  const Path path = end.path_to(end);
  ASSERT_TRUE(end.qp()
                  .modify(kState | kAddress | kPathMtu | kDestQp | kReceivePsn, end.wanted, &path)
                  .ok());
  end.handle(end.packet(Operation::kSendOnly, request_headers()));
  EXPECT_EQ(end.qp().receiver().dropped(PacketDrop::kWrongTransport), 1U);
  EXPECT_TRUE(end.events().empty()) << "nothing was established by what was dropped";
}

TEST(QueuePairMachine, AnXrcTargetTakesNoSendsAndNoResponses) {
  TestEnd end({.type = QpType::kXrcTarget});
  using enum QpMask;
  const Path path = end.path_to(end);
  end.wanted.state = QpState::kInit;
  ASSERT_TRUE(end.qp().modify(kState | kPKeyIndex | kPort | kAccess, end.wanted, nullptr).ok());
  end.wanted.state = QpState::kReadyToReceive;
  ASSERT_TRUE(end.qp()
                  .modify(kState | kAddress | kPathMtu | kDestQp | kReceivePsn |
                              kMaxDestReadAtomic | kMinRnrTimer,
                          end.wanted, &path)
                  .ok());
  end.wanted.state = QpState::kReadyToSend;
  ASSERT_TRUE(end.qp().modify(kState | kTimeout | kSendPsn, end.wanted, &path).ok());
  EXPECT_FALSE(end.post_send(1).ok());
  end.handle(acknowledge(end, 0));
  EXPECT_EQ(end.qp().receiver().dropped(PacketDrop::kWrongTransport), 1U);
}

}  // namespace
}  // namespace verbatim::transport::test
