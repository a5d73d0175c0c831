// SPDX-License-Identifier: Apache-2.0
#include "transport/unreliable/unreliable_sender.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <vector>

#include "memory/window.h"
#include "transport/test_fixture.h"

namespace verbatim::transport {
namespace {

using namespace test;
using wire::OpcodeInfo;
using wire::Operation;
using wire::Psn;
using Psns = std::vector<std::uint32_t>;

/// A sender alone, of either kind.
class SenderTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kDepth = 16;
  static constexpr wire::QKey kOwnKey{0x8000'1111};

  explicit SenderTest(wire::Transport transport)
      : limits_{.depth = kDepth,
                .sge_limit = 4,
                .inline_limit = 300,
                .carries_paths = transport == wire::Transport::kUd},
        block_(SendQueue::octets_for(limits_)),
        queue_(block_.octets(), limits_),
        port_(completions_.port(kDepth)),
        sender_(&queue_, port_, arena_.keys()),
        config_{.number = kOurQp,
                .dest_qp = kPeerQp,
                .transport = transport,
                .domain = kHome,
                .qkey = kOwnKey,
                .first_psn = Psn(0xff'fffe),
                .path_mtu = 256} {
    sender_.start(config_, test_path());
  }

  SendRequest request(SendOpcode opcode, std::uint32_t octets) {
    SendRequest made;
    made.wr_id = next_wr_id_++;
    made.opcode = opcode;
    made.flags = SendFlags::kSignaled;
    made.remote_address = 0x7000;
    made.rkey = wire::MemoryKey{0x1122'3344};
    if (octets > 0) made.list = list({arena_.sge(0, octets)});
    made.path = &path_;
    made.remote_qp = wire::QpNumber{0x00'7777};
    made.remote_qkey = wire::QKey{0x1111'2222};
    return made;
  }
  std::span<const memory::Sge> list(std::vector<memory::Sge> elements) {
    return lists_.emplace_back(std::move(elements));
  }
  std::uint64_t post(const SendRequest& made) {
    VB_ASSERT(queue_.post(made, port_.uncollected()).ok());
    return made.wr_id;
  }
  std::optional<TestPacket> poll() {
    std::array<std::byte, wire::kMaxTransportOctets> frame;
    const std::size_t octets = sender_.poll_transmit(Instant{}, frame, 0x77, &to_);
    if (octets == 0) return std::nullopt;
    const auto written = std::span(frame).first(octets);
    EXPECT_EQ(wire::verify_icrc(to_->seed, written), 0x77);
    return TestPacket::written(written);
  }
  std::vector<TestPacket> drain() {
    std::vector<TestPacket> packets;
    while (auto packet = poll()) packets.push_back(std::move(*packet));
    return packets;
  }
  std::vector<std::pair<std::uint64_t, WcStatus>> outcomes() {
    std::vector<std::pair<std::uint64_t, WcStatus>> all;
    for (const Completion& c : completions_.take()) all.emplace_back(c.wr_id, c.status);
    return all;
  }
  using Outcomes = std::vector<std::pair<std::uint64_t, WcStatus>>;
  /// A request whose second element cannot be read.
  SendRequest broken() {
    SendRequest made = request(SendOpcode::kSend, 0);
    made.list = list({arena_.sge(0, 256), {.address = 1, .octets = 1, .lkey = {}}});
    return made;
  }

  SendQueue::Limits limits_;
  Arena arena_;
  Block block_;
  SendQueue queue_;
  Completions completions_;
  CompletionPort port_;
  UnreliableSender sender_;
  UnreliableSender::Config config_;
  Path path_ = test_path();
  const Path* to_ = nullptr;
  std::uint64_t next_wr_id_ = 1;
  std::deque<std::vector<memory::Sge>> lists_;
};

class UcSenderTest : public SenderTest {
 protected:
  UcSenderTest() : SenderTest(wire::Transport::kUc) {}
};
class UdSenderTest : public SenderTest {
 protected:
  UdSenderTest() : SenderTest(wire::Transport::kUd) {}
};

// ---- Both

TEST_F(UdSenderTest, AFlawedRequestCompletesInItsTurnAndIsNotSent) {
  const auto first = post(request(SendOpcode::kSend, 10));
  const SendRequest flawed = request(SendOpcode::kWrite, 10);  // no operation of datagrams
  ASSERT_TRUE(
      queue_
          .post(flawed, port_.uncollected(),
                {.status = WcStatus::kLocalQpOperation, .reason = Reason::kNotOfThisService})
          .ok());
  EXPECT_EQ(drain().size(), 1U);
  EXPECT_EQ(outcomes(),
            (Outcomes{{first, WcStatus::kSuccess}, {flawed.wr_id, WcStatus::kLocalQpOperation}}));
}

// ---- Connected

TEST_F(UcSenderTest, AMessageIsSentOnceAndCompleteWithItsLastPacket) {
  const Octets data = arena_.scribble(0, 600);
  SendRequest made = request(SendOpcode::kWriteImm, 600);
  made.flags = SendFlags::kSignaled | SendFlags::kSolicited;
  made.immediate = wire::Immediate{9};
  post(made);
  Octets together;
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(outcomes(), Outcomes{});
    const auto packet = poll();
    ASSERT_TRUE(packet);
    const auto view = packet->view();
    constexpr Operation kShapes[] = {Operation::kWriteFirst, Operation::kWriteMiddle,
                                     Operation::kWriteLastImm};
    EXPECT_EQ(view.transport(), wire::Transport::kUc);
    EXPECT_EQ(view.operation(), kShapes[i]);
    EXPECT_EQ(view.psn(), Psn(0xff'fffe + i));
    EXPECT_EQ(view.bth().dest_qp(), kPeerQp);
    EXPECT_FALSE(view.bth().ack_request());
    EXPECT_EQ(view.bth().solicited(), i == 2);
    if (i == 0) {
      EXPECT_EQ(view.reth().address, 0x7000U);
      EXPECT_EQ(view.reth().rkey, wire::MemoryKey{0x1122'3344});
      EXPECT_EQ(view.reth().dma_octets, 600U);
    }
    if (i == 2) {
      EXPECT_EQ(view.imm_dt().immediate, wire::Immediate{9});
    }
    const Octets payload = packet->payload();
    together.insert(together.end(), payload.begin(), payload.end());
  }
  EXPECT_EQ(together, data);
  EXPECT_EQ(outcomes(), (Outcomes{{made.wr_id, WcStatus::kSuccess}}));
  EXPECT_FALSE(poll());
  EXPECT_EQ(sender_.next_psn(), Psn(1));
  EXPECT_EQ(sender_.counters().packets_sent, 3U);
}

TEST_F(UcSenderTest, UnsignaledRequestsHaveACompletionOnlyWhenTheyFail) {
  SendRequest quiet = request(SendOpcode::kSend, 8);
  quiet.flags = SendFlags::kNone;
  post(quiet);
  SendRequest bad = broken();
  bad.flags = SendFlags::kNone;
  post(bad);
  drain();
  EXPECT_EQ(outcomes(), (Outcomes{{bad.wr_id, WcStatus::kLocalProtection}}));
}

TEST_F(UcSenderTest, AFailureStopsTheQueueUntilItIsResumed) {
  const auto first = post(request(SendOpcode::kSend, 8));
  const auto bad = post(broken());
  const auto third = post(request(SendOpcode::kSend, 8));
  EXPECT_EQ(drain().size(), 2U);  // the first, and what could be sent of the second
  EXPECT_TRUE(sender_.has_failed());
  EXPECT_EQ(outcomes(), (Outcomes{{first, WcStatus::kSuccess}, {bad, WcStatus::kLocalProtection}}));
  sender_.flush();
  EXPECT_EQ(outcomes(), (Outcomes{{third, WcStatus::kFlushed}}));
  const auto fourth = post(request(SendOpcode::kSend, 8));
  EXPECT_TRUE(drain().empty());
  sender_.resume();
  const auto packets = drain();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].operation(), Operation::kSendOnly);
  EXPECT_EQ(packets[0].psn(), Psn(0));  // no number was wasted
  EXPECT_EQ(outcomes(), (Outcomes{{fourth, WcStatus::kSuccess}}));
}

TEST_F(UcSenderTest, InlineDataIsThatOfTheTimeOfPosting) {
  const Octets before = arena_.scribble(0, 300, 1);
  SendRequest made = request(SendOpcode::kSend, 300);
  made.flags = SendFlags::kInline;
  post(made);
  arena_.scribble(0, 300, 2);
  Octets together;
  for (const TestPacket& packet : drain()) {
    const Octets payload = packet.payload();
    together.insert(together.end(), payload.begin(), payload.end());
  }
  EXPECT_EQ(together, before);
}

TEST_F(UcSenderTest, HasADestinationUntilItHasNothingToSendOrIsHeld) {
  EXPECT_FALSE(sender_.next_destination(Instant{}));
  post(request(SendOpcode::kSend, 300));
  const auto next = sender_.next_destination(Instant{});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->number, kPeerQp);
  EXPECT_EQ(next->path->destination, test_path().destination);
  const Instant later = Instant{} + std::chrono::microseconds(50);
  sender_.hold_until(later);
  EXPECT_FALSE(sender_.next_destination(Instant{}));
  EXPECT_FALSE(poll());
  EXPECT_EQ(sender_.next_timeout(), later);
  EXPECT_TRUE(sender_.next_destination(later));
}

TEST_F(UdSenderTest, HasTheDestinationOfTheNextDatagram) {
  path_.destination.octets[15] = 0x99;
  post(request(SendOpcode::kSend, 8));
  const auto next = sender_.next_destination(Instant{});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->number, wire::QpNumber{0x00'7777});
  EXPECT_EQ(next->path->destination, path_.destination);
}

TEST_F(UcSenderTest, WhilePausedAMessageIsFinishedAndNoneBegun) {
  post(request(SendOpcode::kSend, 600));
  post(request(SendOpcode::kSend, 8));
  EXPECT_TRUE(poll());
  sender_.pause(true);
  EXPECT_FALSE(sender_.is_drained());
  EXPECT_EQ(drain().size(), 2U);
  EXPECT_TRUE(sender_.is_drained());
  sender_.pause(false);
  EXPECT_EQ(drain().size(), 1U);
}

TEST_F(UcSenderTest, NewAttributesDoNotDisturbTheSequence) {
  post(request(SendOpcode::kSend, 8));
  EXPECT_EQ(drain().size(), 1U);
  config_.dest_qp = wire::QpNumber{0x333};
  config_.first_psn = Psn(77);
  sender_.reconfigure(config_, test_path());
  post(request(SendOpcode::kSend, 8));
  const auto packets = drain();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].psn(), Psn(0xff'ffff));
  EXPECT_EQ(packets[0].view().bth().dest_qp(), wire::QpNumber{0x333});
}

TEST_F(UcSenderTest, LocalOperationsAreDoneInTheirTurn) {
  const auto window = *arena_.registry().allocate_window(kHome, memory::KeyKind::kWindowType2B);
  SendRequest bind = request(SendOpcode::kBindWindow, 0);
  bind.bind = {.window_key = window,
               .new_key = window,
               .region_key = arena_.key(),
               .address = arena_.address(),
               .octets = 8,
               .access = memory::Access::kRemoteWrite};
  SendRequest invalidate = request(SendOpcode::kLocalInvalidate, 0);
  invalidate.invalidate_key = window;
  SendRequest again = invalidate;
  again.wr_id = next_wr_id_++;
  post(bind);
  const auto send = post(request(SendOpcode::kSend, 8));
  post(invalidate);
  post(again);
  EXPECT_EQ(drain().size(), 1U);
  EXPECT_EQ(outcomes(), (Outcomes{{bind.wr_id, WcStatus::kSuccess},
                                  {send, WcStatus::kSuccess},
                                  {invalidate.wr_id, WcStatus::kSuccess},
                                  {again.wr_id, WcStatus::kLocalQpOperation}}));
  EXPECT_TRUE(sender_.has_failed());
}

TEST_F(UcSenderTest, UnmappedMemoryFailsTheRequestThatIsBeingSent) {
  const auto id = post(request(SendOpcode::kSend, 600));
  EXPECT_TRUE(poll());
  sender_.handle_memory_fault();
  EXPECT_TRUE(sender_.has_failed());
  EXPECT_FALSE(poll());
  EXPECT_EQ(outcomes(), (Outcomes{{id, WcStatus::kLocalProtection}}));
}

// ---- Datagrams

TEST_F(UdSenderTest, EveryDatagramHasItsOwnPath) {
  path_.destination.octets[15] = 99;
  path_.pkey = wire::PKey{0x8123};  // the queue pair's own counts
  path_.refresh_seed();
  SendRequest made = request(SendOpcode::kSendImm, 200);
  made.flags = SendFlags::kSignaled | SendFlags::kSolicited;
  made.immediate = wire::Immediate{0xabc};
  const Octets data = arena_.scribble(0, 200);
  post(made);
  path_ = test_path();  // it was copied
  const auto packet = poll();
  ASSERT_TRUE(packet);
  const auto view = packet->view();
  EXPECT_EQ(view.transport(), wire::Transport::kUd);
  EXPECT_EQ(view.operation(), Operation::kSendOnlyImm);
  EXPECT_EQ(view.bth().dest_qp(), wire::QpNumber{0x00'7777});
  EXPECT_EQ(view.bth().pkey(), wire::PKey::kDefault);
  EXPECT_TRUE(view.bth().solicited());
  EXPECT_EQ(view.deth().source_qp, kOurQp);
  EXPECT_EQ(view.deth().qkey, wire::QKey{0x1111'2222});
  EXPECT_EQ(view.imm_dt().immediate, wire::Immediate{0xabc});
  EXPECT_EQ(packet->payload(), data);
  EXPECT_EQ(to_->destination.octets[15], 99);
  EXPECT_EQ(outcomes(), (Outcomes{{made.wr_id, WcStatus::kSuccess}}));
}

TEST_F(UdSenderTest, AControlledKeyStandsForTheQueuePairsOwn) {
  for (const std::uint32_t key : {0x8000'0000U, 0xffff'ffffU, 0x7fff'ffffU, 0U}) {
    SendRequest made = request(SendOpcode::kSend, 8);
    made.remote_qkey = wire::QKey{key};
    post(made);
    const auto packet = poll();
    ASSERT_TRUE(packet);
    const bool controlled = (key >> 31) != 0;
    EXPECT_EQ(packet->view().deth().qkey, controlled ? kOwnKey : wire::QKey{key});
  }
}

TEST_F(UdSenderTest, SequenceNumbersCountDatagrams) {
  for (int i = 0; i < 4; ++i) post(request(SendOpcode::kSend, 256));
  Psns psns;
  for (const TestPacket& packet : drain()) psns.push_back(packet.psn().raw());
  EXPECT_EQ(psns, (Psns{0xff'fffe, 0xff'ffff, 0, 1}));
}

TEST_F(UdSenderTest, AMessageLongerThanAPacketIsALengthError) {
  const auto id = post(request(SendOpcode::kSend, 257));
  post(request(SendOpcode::kSend, 8));
  EXPECT_TRUE(drain().empty());
  EXPECT_TRUE(sender_.has_failed());
  EXPECT_EQ(outcomes(), (Outcomes{{id, WcStatus::kLocalLength}}));
  EXPECT_EQ(sender_.next_psn(), Psn(0xff'fffe));
}

TEST_F(UdSenderTest, AnEmptyDatagramIsAPacket) {
  post(request(SendOpcode::kSend, 0));
  const auto packet = poll();
  ASSERT_TRUE(packet);
  EXPECT_TRUE(packet->payload().empty());
}

TEST_F(UdSenderTest, AProtectionErrorFlushesTheRest) {
  SendRequest bad = request(SendOpcode::kSend, 0);
  bad.list = list({{.address = 1, .octets = 1, .lkey = {}}});
  post(bad);
  const auto next = post(request(SendOpcode::kSend, 8));
  EXPECT_TRUE(drain().empty());
  sender_.flush();
  EXPECT_EQ(outcomes(),
            (Outcomes{{bad.wr_id, WcStatus::kLocalProtection}, {next, WcStatus::kFlushed}}));
}

}  // namespace
}  // namespace verbatim::transport
