// SPDX-License-Identifier: Apache-2.0
// What follows when a connection is established, fails or ends: the completion, the event and the
// answer to the peer (IBA Vol 1, 9.9 and 11.6.3).
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "transport/test_queue_pair.h"

namespace verbatim::transport::test {
namespace {

using wire::Operation;
using wire::Psn;
using Nak = wire::Syndrome::Nak;

wire::PacketHeaders headers_at(std::uint32_t psn) {
  wire::PacketHeaders headers;
  headers.bth.psn = Psn(psn);
  headers.bth.ack_request = true;
  return headers;
}

const std::vector<std::byte> kEight(8);

// ---- Failures of the responder

class ResponderFailure : public testing::Test {
 protected:
  void SetUp() override {
    peer_.connect(end_);
    end_.connect(peer_);
  }
  /// The connection has ended, with this NAK for the peer, these completions of receives and these
  /// events.
  void expect_end(Nak nak, const Endings& receives, const Events& events) {
    const auto answer = end_.transmit();
    EXPECT_EQ(end_.qp().state(), QpState::kError);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->operation(), Operation::kAcknowledge);
    EXPECT_EQ(answer->view().aeth().syndrome, wire::Syndrome::nak(nak));
    EXPECT_FALSE(end_.transmit().has_value());
    EXPECT_EQ(endings(end_.receives()), receives);
    EXPECT_EQ(end_.events(), events);
  }
  wire::PacketHeaders to_memory(std::uint64_t address, std::uint32_t octets, wire::MemoryKey key) {
    auto headers = headers_at(0);
    headers.reth = {.address = address, .rkey = key, .dma_octets = octets};
    headers.atomic_eth = {.address = address, .rkey = key, .swap_or_add = 1, .compare = 0};
    return headers;
  }

  TestEnd end_{{.index = 0}};
  TestEnd peer_{{.index = 1}};
};

TEST_F(ResponderFailure, AnOpcodeOutOfOrderIsARequestError) {
  ASSERT_TRUE(end_.post_receive(1).ok());
  end_.handle(end_.packet(Operation::kSendLast, headers_at(0), kEight));
  expect_end(Nak::kInvalidRequest, {{1, WcStatus::kFlushed}}, {QpEvent::kRequestError});
}

TEST_F(ResponderFailure, AnOpcodeOutOfOrderInsideAMessageFailsItsReceive) {
  ASSERT_TRUE(end_.post_receive(1).ok());
  ASSERT_TRUE(end_.post_receive(2).ok());
  const std::vector<std::byte> whole(TestEnd::kMtu);
  end_.handle(end_.packet(Operation::kSendFirst, headers_at(0), whole));
  end_.handle(end_.packet(Operation::kSendOnly, headers_at(1), kEight));
  expect_end(Nak::kInvalidRequest, {{1, WcStatus::kRemoteInvalidRequest}, {2, WcStatus::kFlushed}},
             {});
}

TEST_F(ResponderFailure, AnOperationThatIsNotEnabledIsARequestError) {
  QpAttributes wanted = end_.qp().attributes();
  wanted.access = memory::Access::kRemoteRead;
  ASSERT_TRUE(end_.qp().modify(QpMask::kAccess, wanted, nullptr).ok());
  end_.handle(
      end_.packet(Operation::kWriteOnly, to_memory(TestEnd::address(0), 8, end_.key()), kEight));
  expect_end(Nak::kInvalidRequest, {}, {QpEvent::kRequestError});
}

TEST_F(ResponderFailure, AWrongLengthIsARequestError) {
  end_.handle(
      end_.packet(Operation::kWriteOnly, to_memory(TestEnd::address(0), 9, end_.key()), kEight));
  expect_end(Nak::kInvalidRequest, {}, {QpEvent::kRequestError});
}

TEST_F(ResponderFailure, AKeyThatGrantsNothingIsAnAccessError) {
  end_.handle(
      end_.packet(Operation::kWriteOnly, to_memory(0, 8, wire::MemoryKey{0xbad00}), kEight));
  expect_end(Nak::kRemoteAccess, {}, {QpEvent::kAccessError});
}

TEST_F(ResponderFailure, AReadBeyondTheRegionIsAnAccessError) {
  end_.handle(end_.packet(Operation::kReadRequest,
                          to_memory(TestEnd::address(TestEnd::kOctets), 1, end_.key())));
  expect_end(Nak::kRemoteAccess, {}, {QpEvent::kAccessError});
}

TEST_F(ResponderFailure, AMisalignedAtomicIsARequestError) {
  end_.handle(end_.packet(Operation::kFetchAdd, to_memory(TestEnd::address(4), 8, end_.key())));
  expect_end(Nak::kInvalidRequest, {}, {QpEvent::kRequestError});
}

TEST_F(ResponderFailure, MoreReadsThanAgreedAreARequestError) {
  for (std::uint32_t i = 0; i < 5; ++i) {
    auto headers = to_memory(TestEnd::address(0), 8, end_.key());
    headers.bth.psn = Psn(i);
    end_.handle(end_.packet(Operation::kReadRequest, headers));
  }
  EXPECT_EQ(end_.qp().state(), QpState::kError);
  EXPECT_EQ(end_.events(), Events{QpEvent::kRequestError});
}

TEST_F(ResponderFailure, AMessageThatDoesNotFitFailsItsReceive) {
  ASSERT_TRUE(end_.post_receive(1, 0, 7).ok());
  end_.handle(end_.packet(Operation::kSendOnly, headers_at(0), kEight));
  expect_end(Nak::kInvalidRequest, {{1, WcStatus::kLocalLength}}, {});
}

TEST_F(ResponderFailure, AReceiveIntoForeignMemoryFails) {
  const memory::Sge list[] = {{.address = 0, .octets = 64, .lkey = wire::MemoryKey{1}}};
  ASSERT_TRUE(end_.qp().post_receive({.wr_id = 1, .list = list}).ok());
  end_.handle(end_.packet(Operation::kSendOnly, headers_at(0), kEight));
  expect_end(Nak::kRemoteOperation, {{1, WcStatus::kLocalProtection}}, {});
}

TEST_F(ResponderFailure, AnInvalidateOfTheWrongKeyFailsItsReceive) {
  ASSERT_TRUE(end_.post_receive(1).ok());
  auto headers = headers_at(0);
  headers.ieth.rkey = end_.key();  // a region: not to be invalidated
  end_.handle(end_.packet(Operation::kSendOnlyInvalidate, headers, kEight));
  EXPECT_EQ(end_.qp().state(), QpState::kError);
  EXPECT_EQ(endings(end_.receives()), (Endings{{1, WcStatus::kRemoteInvalidRequest}}));
  EXPECT_TRUE(end_.events().empty());
}

TEST_F(ResponderFailure, ReasonsTravelInTheCompletion) {
  ASSERT_TRUE(end_.post_receive(1, 0, 7).ok());
  end_.handle(end_.packet(Operation::kSendOnly, headers_at(0), kEight));
  const auto receives = end_.receives();
  ASSERT_EQ(receives.size(), 1U);
  EXPECT_EQ(receives[0].detail, static_cast<std::uint32_t>(Reason::kMessageTooLong));
  EXPECT_EQ(end_.qp().responder_state().reason, Reason::kMessageTooLong);
}

TEST_F(ResponderFailure, TheSendsAreFlushedBeforeTheReceives) {
  ASSERT_TRUE(end_.post_send(5).ok());
  ASSERT_TRUE(end_.transmit().has_value());
  ASSERT_TRUE(end_.post_receive(6).ok());
  end_.handle(
      end_.packet(Operation::kWriteOnly, to_memory(0, 8, wire::MemoryKey{0xbad00}), kEight));
  EXPECT_EQ(endings(end_.sends()), (Endings{{5, WcStatus::kFlushed}}));
  EXPECT_EQ(endings(end_.receives()), (Endings{{6, WcStatus::kFlushed}}));
}

TEST_F(ResponderFailure, AnswersThatWereOwedComeBeforeTheRefusal) {
  end_.handle(end_.packet(Operation::kReadRequest, to_memory(TestEnd::address(0), 8, end_.key())));
  auto headers = to_memory(0, 8, wire::MemoryKey{0xbad00});
  headers.bth.psn = Psn(1);
  end_.handle(end_.packet(Operation::kWriteOnly, headers, kEight));
  EXPECT_EQ(end_.qp().state(), QpState::kError);
  const auto answers = transmit_all(end_);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].operation(), Operation::kReadResponseOnly);
  EXPECT_EQ(answers[1].view().aeth().syndrome, wire::Syndrome::nak(Nak::kRemoteAccess));
}

TEST_F(ResponderFailure, AKeyThatIsWithdrawnDuringAReadIsAnAccessError) {
  const auto key = end_.region(memory::Access::kRemoteRead);
  end_.handle(
      end_.packet(Operation::kReadRequest, to_memory(TestEnd::address(0), 4 * TestEnd::kMtu, key)));
  ASSERT_TRUE(end_.transmit().has_value());
  ASSERT_TRUE(end_.registry().deregister_region(key).ok());
  expect_end(Nak::kRemoteAccess, {}, {QpEvent::kAccessError});
}

// ---- Failures of the requester: only the completion reports them

TEST(RequesterFailure, EndsTheConnectionWithoutAnEvent) {
  struct Case {
    const char* what;
    std::function<Status(TestEnd&, TestEnd&)> post;
    WcStatus status;
  };
  const auto write = [](TestEnd& a, std::uint64_t address, wire::MemoryKey key) {
    return a.post(
        {.wr_id = 1, .opcode = SendOpcode::kWrite, .remote_address = address, .rkey = key}, 0, 8);
  };
  const Case cases[] = {
      {"own list", [](auto& a, auto&) { return post_broken_send(a, 1); },
       WcStatus::kLocalProtection},
      {"peer's key", [&](auto& a, auto&) { return write(a, 0, wire::MemoryKey{0xbad00}); },
       WcStatus::kRemoteAccess},
      {"peer's rights",
       [&](auto& a, auto& b) {
         QpAttributes wanted = b.qp().attributes();
         wanted.access = memory::Access::kNone;
         EXPECT_TRUE(b.qp().modify(QpMask::kAccess, wanted, nullptr).ok());
         return write(a, TestEnd::address(0), b.key());
       },
       WcStatus::kRemoteInvalidRequest},
      {"peer's receive",
       [](auto& a, auto& b) {
         const memory::Sge list[] = {{.address = 0, .octets = 64, .lkey = wire::MemoryKey{1}}};
         EXPECT_TRUE(b.qp().post_receive({.wr_id = 1, .list = list}).ok());
         return a.post_send(1);
       },
       WcStatus::kRemoteOperation},
      {"bind",
       [](auto& a, auto&) {
         return a.qp().post_send({.wr_id = 1,
                                  .opcode = SendOpcode::kBindWindow,
                                  .bind = {.window_key = wire::MemoryKey{1}}});
       },
       WcStatus::kWindowBind},
      {"invalidate",
       [](auto& a, auto&) {
         return a.qp().post_send(
             {.wr_id = 1, .opcode = SendOpcode::kLocalInvalidate, .invalidate_key = a.key()});
       },
       WcStatus::kLocalQpOperation},
      {"landing of a READ",
       [](auto& a, auto& b) {
         const memory::Sge list[] = {{.address = TestEnd::address(0),
                                      .octets = 8,
                                      .lkey = a.region(memory::Access::kRemoteRead)}};
         return a.qp().post_send({.wr_id = 1,
                                  .opcode = SendOpcode::kRead,
                                  .list = list,
                                  .remote_address = TestEnd::address(0),
                                  .rkey = b.key()});
       },
       WcStatus::kLocalProtection},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.what);
    TestEnd a({.index = 0});
    TestEnd b({.index = 1});
    a.connect(b);
    b.connect(a);
    ASSERT_TRUE(a.post_receive(9).ok());
    ASSERT_TRUE(each.post(a, b).ok());
    ASSERT_TRUE(a.post_send(2).ok());
    exchange(a, b);
    EXPECT_EQ(a.qp().state(), QpState::kError);
    const auto sends = a.sends();
    EXPECT_EQ(endings(sends), (Endings{{1, each.status}, {2, WcStatus::kFlushed}}));
    EXPECT_NE(sends[0].detail, 0U) << "and why";
    EXPECT_EQ(sends[1].detail, 0U);
    EXPECT_EQ(endings(a.receives()), (Endings{{9, WcStatus::kFlushed}}));
    EXPECT_TRUE(a.events().empty());
  }
}

TEST(RequesterFailure, APeerWithoutReceivesEndsTheConnection) {
  TestEnd a({.index = 0});
  TestEnd b({.index = 1});
  a.wanted.rnr_retry = 2;
  a.connect(b);
  b.connect(a);
  ASSERT_TRUE(a.post_send(1).ok());
  Instant now{};
  int naks = 0;
  while (a.qp().state() == QpState::kReadyToSend) {
    ASSERT_TRUE(a.carry_to(b, now));
    ASSERT_TRUE(b.carry_to(a, now));
    ++naks;
    if (a.qp().state() != QpState::kReadyToSend) break;
    EXPECT_FALSE(a.transmit(now).has_value()) << "not before the timer";
    now = a.qp().next_timeout();
    a.qp().handle_timeout(now);
  }
  EXPECT_EQ(naks, 3);
  EXPECT_EQ(endings(a.sends()), (Endings{{1, WcStatus::kRnrRetryExceeded}}));
  EXPECT_EQ(b.qp().state(), QpState::kReadyToSend) << "the peer is not to blame";
  EXPECT_TRUE(a.events().empty());
  EXPECT_EQ(b.qp().next_timeout(), Instant::never());
}

TEST(RequesterFailure, TheFailedOneComesFirstAndInItsOrder) {
  TestEnd a({.index = 0});
  TestEnd b({.index = 1});
  a.connect(b);
  b.connect(a);
  ASSERT_TRUE(b.post_receive(1).ok());
  ASSERT_TRUE(a.post_send(1).ok());
  ASSERT_TRUE(post_broken_send(a, 2).ok());
  ASSERT_TRUE(a.post_send(3).ok());
  ASSERT_TRUE(a.carry_to(b));
  EXPECT_FALSE(a.transmit().has_value());
  EXPECT_TRUE(a.sends().empty()) << "what was sent before is still on its way";
  EXPECT_EQ(a.qp().state(), QpState::kReadyToSend);
  exchange(a, b);
  EXPECT_EQ(
      endings(a.sends()),
      (Endings{{1, WcStatus::kSuccess}, {2, WcStatus::kLocalProtection}, {3, WcStatus::kFlushed}}));
}

// ---- Communication established

class Establishing : public testing::TestWithParam<QpType> {
 protected:
  TestPacket request(std::uint32_t psn) {
    auto headers = headers_at(psn);
    headers.deth.qkey = end_.wanted.qkey;
    return end_.packet(Operation::kSendOnly, headers);
  }
  TestEnd end_{{.type = GetParam(), .index = 0}};
  TestEnd peer_{{.type = GetParam(), .index = 1}};
};

TEST_P(Establishing, TheFirstPacketInRtrIsReportedOnce) {
  end_.connect(peer_, QpState::kReadyToReceive);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(end_.post_receive(i).ok());
  EXPECT_TRUE(end_.events().empty());
  end_.handle(request(0));
  const Events reported{QpEvent::kCommunicationEstablished};
  EXPECT_EQ(end_.events(), GetParam() == QpType::kUd ? Events{} : reported);
  end_.handle(request(1));
  EXPECT_TRUE(end_.events().empty());
  ASSERT_TRUE(end_.step(QpState::kReadyToSend, peer_).ok());
  end_.handle(request(2));
  EXPECT_TRUE(end_.events().empty());
  EXPECT_EQ(end_.receives().size(), 3U);
}

TEST_P(Establishing, InRtsNothingIsReported) {
  end_.connect(peer_);
  ASSERT_TRUE(end_.post_receive(1).ok());
  end_.handle(request(0));
  EXPECT_TRUE(end_.events().empty());
}

TEST_P(Establishing, AQueuePairThatWasResetIsEstablishedAnew) {
  if (GetParam() == QpType::kUd) return;
  for (int time = 0; time < 2; ++time) {
    end_.connect(peer_, QpState::kReadyToReceive);
    end_.handle(request(0));
    EXPECT_EQ(end_.events(), Events{QpEvent::kCommunicationEstablished});
    ASSERT_TRUE(end_.step(QpState::kReset).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(EveryService, Establishing,
                         testing::Values(QpType::kRc, QpType::kUc, QpType::kUd));

// ---- Shared receive queues

class SharedReceives : public testing::Test {
 protected:
  void SetUp() override {
    peer_.connect(end_);
    end_.connect(peer_);
    for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(end_.post_receive(i).ok());
  }
  TestEnd end_{{.index = 0, .has_shared_queue = true}};
  TestEnd peer_{{.index = 1}};
};

TEST_F(SharedReceives, AreNotFlushedAndTheLastOneIsReported) {
  ASSERT_TRUE(end_.post_send(5).ok());
  ASSERT_TRUE(end_.step(QpState::kError).ok());
  EXPECT_EQ(endings(end_.sends()), (Endings{{5, WcStatus::kFlushed}}));
  EXPECT_TRUE(end_.receives().empty());
  EXPECT_EQ(end_.shared().waiting_count(), 4U);
  EXPECT_EQ(end_.events(), Events{QpEvent::kLastWqeReached});
  ASSERT_TRUE(end_.step(QpState::kError).ok());
  EXPECT_TRUE(end_.events().empty()) << "once";
}

TEST_F(SharedReceives, TheOneThatAMessageHadTakenIsFlushed) {
  ASSERT_TRUE(peer_.post_send(1, 2 * TestEnd::kMtu).ok());
  ASSERT_TRUE(peer_.carry_to(end_));
  ASSERT_TRUE(end_.step(QpState::kError).ok());
  EXPECT_EQ(endings(end_.receives()), (Endings{{0, WcStatus::kFlushed}}));
  EXPECT_EQ(end_.shared().waiting_count(), 3U);
}

TEST_F(SharedReceives, AFailureReportsTheLastOneToo) {
  auto headers = headers_at(0);
  headers.reth = {.address = 0, .rkey = wire::MemoryKey{0xbad00}, .dma_octets = 8};
  end_.handle(end_.packet(Operation::kWriteOnly, headers, kEight));
  EXPECT_EQ(end_.events(), (Events{QpEvent::kAccessError, QpEvent::kLastWqeReached}));
  EXPECT_EQ(end_.shared().waiting_count(), 4U);
}

TEST_F(SharedReceives, ArePostedToTheirQueueAlone) {
  EXPECT_EQ(end_.qp().post_receive({.wr_id = 9}).error(), Errc::kInvalidArgument);
}

TEST_F(SharedReceives, ServeTheNextMessagesInOrder) {
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(peer_.post_send(i, 300).ok());
  exchange(peer_, end_);
  EXPECT_EQ(endings(end_.receives()),
            (Endings{{0, WcStatus::kSuccess}, {1, WcStatus::kSuccess}, {2, WcStatus::kSuccess}}));
  EXPECT_EQ(end_.shared().waiting_count(), 1U);
}

TEST(OwnReceives, HaveNoLastOne) {
  TestEnd end({});
  end.connect(end);
  ASSERT_TRUE(end.step(QpState::kError).ok());
  EXPECT_TRUE(end.events().empty());
}

// ---- Completion queues without room

TEST(CompletionOverrun, EndsAQueuePairForGood) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    TestEnd end({.type = type});
    end.connect(end);
    ASSERT_TRUE(end.post_receive(1).ok());
    ASSERT_TRUE(end.post_send(2).ok());
    end.qp().handle(QueuePairMachine::OwnerEvent::kCompletionOverrun);
    EXPECT_EQ(end.qp().state(), QpState::kError);
    EXPECT_EQ(end.events(), Events{QpEvent::kFatal});
    EXPECT_EQ(endings(end.sends()), (Endings{{2, WcStatus::kFlushed}}));
    EXPECT_EQ(endings(end.receives()), (Endings{{1, WcStatus::kFlushed}}));
    end.qp().handle(QueuePairMachine::OwnerEvent::kCompletionOverrun);
    EXPECT_TRUE(end.events().empty()) << "once";
    ASSERT_TRUE(end.step(QpState::kReset).ok());
    end.qp().handle(QueuePairMachine::OwnerEvent::kCompletionOverrun);
    EXPECT_TRUE(end.events().empty()) << "a queue pair in RESET has nothing to lose";
  }
}

TEST(CompletionOverrun, OfAReceiveThatFindsNoPlaceIsFatal) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    SCOPED_TRACE(static_cast<int>(type));
    // The lane may be too small for a shared queue: any queue pair may use its receives.
    TestEnd end({.type = type, .index = 0, .receive_lane_depth = 1, .has_shared_queue = true});
    TestEnd peer({.type = type, .index = 1});
    end.connect(peer);
    peer.connect(end);
    for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(end.post_receive(i).ok());
    ASSERT_TRUE(peer.post_send(1, 8, &end).ok());
    ASSERT_TRUE(peer.post_send(2, 8, &end).ok());
    exchange(peer, end);
    EXPECT_EQ(end.qp().state(), QpState::kError);
    EXPECT_EQ(end.qp().responder_state().reason, Reason::kCompletionOverrun);
    EXPECT_EQ(end.events(), (Events{QpEvent::kFatal, QpEvent::kLastWqeReached}));
    EXPECT_EQ(endings(end.receives()), (Endings{{0, WcStatus::kSuccess}}));
  }
}

// ---- Memory that a program unmapped although it was registered

TEST(MemoryFault, FailsTheRequestThatWasBeingSent) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    TestEnd end({.type = type});
    end.connect(end);
    ASSERT_TRUE(end.post_send(1).ok());
    ASSERT_TRUE(end.post_send(2).ok());
    end.qp().handle_memory_fault();
    EXPECT_EQ(endings(end.sends()),
              (Endings{{1, WcStatus::kLocalProtection}, {2, WcStatus::kFlushed}}));
    EXPECT_EQ(end.qp().state(), type == QpType::kRc ? QpState::kError : QpState::kSendQueueError);
  }
}

TEST(MemoryFault, FailsTheReceiveThatWasBeingFilled) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    TestEnd end({.type = type, .index = 0});
    TestEnd peer({.type = type, .index = 1});
    end.connect(peer);
    peer.connect(end);
    ASSERT_TRUE(end.post_receive(1).ok());
    ASSERT_TRUE(peer.post_send(5, 2 * TestEnd::kMtu).ok());
    ASSERT_TRUE(peer.carry_to(end));
    end.qp().handle_memory_fault();
    EXPECT_EQ(end.qp().state(), QpState::kError);
    EXPECT_EQ(endings(end.receives()), (Endings{{1, WcStatus::kLocalProtection}}));
  }
}

}  // namespace
}  // namespace verbatim::transport::test
