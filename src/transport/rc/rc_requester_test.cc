// SPDX-License-Identifier: Apache-2.0
// What a requester sends, and in which order. Answers are in rc_requester_answers_test.cc, losses
// in rc_requester_retry_test.cc.
#include "transport/rc/rc_requester.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "transport/rc/test_requester.h"

namespace verbatim::transport {
namespace {

using namespace test;
using wire::OpcodeInfo;
using wire::Operation;
using wire::Psn;
using Config = RcRequester::Config;
using Psns = std::vector<std::uint32_t>;

Config with_mtu(std::uint32_t mtu) {
  Config config = RequesterRig::defaults();
  config.path_mtu = mtu;
  return config;
}

// ---- SEND and WRITE

constexpr SendOpcode kSegmented[] = {SendOpcode::kSend, SendOpcode::kSendImm,
                                     SendOpcode::kSendInvalidate, SendOpcode::kWrite,
                                     SendOpcode::kWriteImm};

bool is_write(SendOpcode opcode) {
  return opcode == SendOpcode::kWrite || opcode == SendOpcode::kWriteImm;
}
bool has_immediate(SendOpcode opcode) {
  return opcode == SendOpcode::kSendImm || opcode == SendOpcode::kWriteImm;
}

void check_message(SendOpcode opcode, std::uint32_t mtu, std::uint32_t octets) {
  SCOPED_TRACE(testing::Message() << "opcode " << static_cast<int>(opcode) << ", MTU " << mtu
                                  << ", " << octets << " octets");
  RequesterRig rig(with_mtu(mtu));
  const Octets message = rig.arena().scribble(0, octets);
  SendRequest request = rig.request(opcode, octets);
  request.flags = SendFlags::kSignaled | SendFlags::kSolicited;
  request.immediate = wire::Immediate{0x0403'0201};
  request.invalidate_key = wire::MemoryKey{0x5566'7788};
  ASSERT_TRUE(rig.post(request));

  const auto packets = rig.drain();
  const std::size_t count = octets == 0 ? 1 : (octets + mtu - 1) / mtu;
  ASSERT_EQ(packets.size(), count);
  Octets together;
  for (std::size_t i = 0; i < count; ++i) {
    const auto view = packets[i].view();
    const bool is_first = i == 0;
    const bool is_last = i + 1 == count;
    EXPECT_EQ(view.transport(), wire::Transport::kRc);
    EXPECT_EQ(view.info().starts_message, is_first);
    EXPECT_EQ(view.info().ends_message, is_last);
    EXPECT_EQ(view.psn(), Psn(100 + static_cast<std::uint32_t>(i)));
    EXPECT_EQ(view.bth().dest_qp(), kPeerQp);
    EXPECT_EQ(view.bth().pkey(), wire::PKey::kDefault);
    EXPECT_EQ(view.bth().pad_count(), (4 - view.payload().size() % 4) % 4);
    EXPECT_EQ(view.bth().solicited(), is_last);
    if (!is_last) {
      EXPECT_EQ(view.payload().size(), mtu);
    }
    EXPECT_EQ(view.info().has(OpcodeInfo::kReth), is_write(opcode) && is_first);
    if (view.info().has(OpcodeInfo::kReth)) {
      EXPECT_EQ(view.reth().address, RequesterRig::kRemoteAddress);
      EXPECT_EQ(view.reth().rkey, RequesterRig::kRemoteKey);
      EXPECT_EQ(view.reth().dma_octets, octets);
    }
    EXPECT_EQ(view.info().has(OpcodeInfo::kImmDt), has_immediate(opcode) && is_last);
    if (view.info().has(OpcodeInfo::kImmDt)) {
      EXPECT_EQ(view.imm_dt().immediate, request.immediate);
    }
    EXPECT_EQ(view.info().has(OpcodeInfo::kIeth), opcode == SendOpcode::kSendInvalidate && is_last);
    if (view.info().has(OpcodeInfo::kIeth)) {
      EXPECT_EQ(view.ieth().rkey, request.invalidate_key);
    }
    together.insert(together.end(), view.payload().begin(), view.payload().end());
  }
  EXPECT_TRUE(packets.back().ack_request());
  EXPECT_EQ(together, message);
}

TEST(RcRequester, DividesEveryMessageAtTheMtu) {
  for (const SendOpcode opcode : kSegmented) {
    for (const std::uint32_t mtu : {256U, 512U, 1024U, 2048U, 4096U}) {
      for (const std::uint32_t octets : {0U, 1U, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu + 2}) {
        check_message(opcode, mtu, octets);
      }
    }
  }
}

TEST(RcRequester, SequenceNumbersWrapInsideAMessage) {
  Config config = RequesterRig::defaults();
  config.first_psn = Psn(0xff'fffe);
  RequesterRig rig(config);
  rig.post(SendOpcode::kSend, 4 * 256);
  const auto last = rig.post(SendOpcode::kSend, 1);
  EXPECT_EQ(psns_of(rig.drain()), (Psns{0xff'fffe, 0xff'ffff, 0, 1, 2}));
  EXPECT_EQ(rig.machine().in_flight(), 5U);
  rig.ack(Psn(2));
  EXPECT_EQ(rig.machine().in_flight(), 0U);
  EXPECT_EQ(rig.completions().back().wr_id, last);
  EXPECT_EQ(rig.machine().next_psn(), Psn(3));
}

TEST(RcRequester, SolicitedStandsOnlyWhereItWasAskedFor) {
  RequesterRig rig;
  rig.post(SendOpcode::kSend, 300);
  for (const TestPacket& packet : rig.drain()) EXPECT_FALSE(packet.view().bth().solicited());
}

TEST(RcRequester, AsksForAnAcknowledgementAtTheEndAndFourTimesPerWindow) {
  RequesterRig rig;
  rig.post(SendOpcode::kWrite, 100 * 256);
  const auto packets = rig.drain();
  ASSERT_EQ(packets.size(), 100U);
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const bool due = i == 99 || (i + 1) % 32 == 0;
    EXPECT_EQ(packets[i].ack_request(), due) << i;
  }
}

/// The last packet of this window is not one of the four that ask anyway.
TEST(RcRequester, AsksForAnAcknowledgementWhenAnOddWindowCloses) {
  Config config = RequesterRig::defaults();
  config.window_packets = 9;
  RequesterRig rig(config);
  rig.post(SendOpcode::kWrite, 20 * 256);
  const auto packets = rig.drain();
  ASSERT_EQ(packets.size(), 9U);
  EXPECT_TRUE(packets[8].ack_request());
}

TEST(RcRequester, KeepsTheWindowAndAsksForAnAcknowledgementWhenItCloses) {
  Config config = RequesterRig::defaults();
  config.window_packets = 8;
  RequesterRig rig(config);
  rig.post(SendOpcode::kWrite, 20 * 256);
  const auto packets = rig.drain();
  ASSERT_EQ(packets.size(), 8U);
  EXPECT_FALSE(packets[6].ack_request());
  EXPECT_TRUE(packets[7].ack_request());
  EXPECT_EQ(rig.machine().in_flight(), 8U);

  rig.ack(Psn(102));
  EXPECT_EQ(psns_of(rig.drain()), (Psns{108, 109, 110}));
  EXPECT_EQ(rig.machine().in_flight(), 8U);
  rig.ack(Psn(110));
  EXPECT_EQ(rig.drain().size(), 8U);
  rig.ack(Psn(118));
  EXPECT_EQ(psns_of(rig.drain()), (Psns{119}));
  EXPECT_TRUE(rig.completions().empty());
  rig.ack(Psn(119));
  EXPECT_EQ(rig.completions().size(), 1U);
}

TEST(RcRequester, GathersAMessageFromItsWholeList) {
  RequesterRig rig;
  rig.arena().scribble(0, 4096);
  SendRequest request = rig.request(SendOpcode::kSend, 0);
  request.list = rig.list({rig.arena().sge(10, 100), rig.arena().sge(2000, 0),
                           rig.arena().sge(700, 301), rig.arena().sge(3, 200)});
  ASSERT_TRUE(rig.post(request));
  Octets together;
  for (const TestPacket& packet : rig.drain()) {
    const Octets payload = packet.payload();
    together.insert(together.end(), payload.begin(), payload.end());
  }
  Octets expected = rig.arena().copy(10, 100);
  for (const Octets& part : {rig.arena().copy(700, 301), rig.arena().copy(3, 200)}) {
    expected.insert(expected.end(), part.begin(), part.end());
  }
  EXPECT_EQ(together, expected);
}

TEST(RcRequester, InlineDataIsThatOfTheTimeOfPosting) {
  RequesterRig rig;
  SendRequest request = rig.request(SendOpcode::kSend, 0);
  request.flags = SendFlags::kSignaled | SendFlags::kInline;
  const Octets before = rig.arena().scribble(40, 300, 1);
  auto list = std::vector{rig.arena().sge(40, 100), rig.arena().sge(140, 200)};
  for (auto& sge : list) sge.lkey = wire::MemoryKey{0xbad};  // ignored for inline data
  request.list = list;
  ASSERT_TRUE(rig.post(request));
  rig.arena().scribble(40, 300, 2);
  const auto packets = rig.drain();
  ASSERT_EQ(packets.size(), 2U);
  Octets together = packets[0].payload();
  const Octets rest = packets[1].payload();
  together.insert(together.end(), rest.begin(), rest.end());
  EXPECT_EQ(together, before);
}

TEST(RcRequester, XrcRequestsNameTheirSharedReceiveQueue) {
  Config config = RequesterRig::defaults();
  config.transport = wire::Transport::kXrc;
  RequesterRig rig(config);
  for (const SendOpcode opcode :
       {SendOpcode::kSend, SendOpcode::kWriteImm, SendOpcode::kRead, SendOpcode::kFetchAdd}) {
    SendRequest request = rig.request(opcode, opcode == SendOpcode::kFetchAdd ? 8 : 300);
    request.remote_srq = wire::SrqNumber{0x00'7788};
    ASSERT_TRUE(rig.post(request));
  }
  const auto packets = rig.drain();
  ASSERT_EQ(packets.size(), 6U);
  for (const TestPacket& packet : packets) {
    EXPECT_EQ(packet.view().transport(), wire::Transport::kXrc);
    ASSERT_TRUE(packet.view().info().has(OpcodeInfo::kXrcEth));
    EXPECT_EQ(packet.view().xrceth().srq, wire::SrqNumber{0x00'7788});
  }
}

TEST(RcRequester, UnsignaledRequestsHaveNoCompletion) {
  RequesterRig rig;
  SendRequest quiet = rig.request(SendOpcode::kSend, 10);
  quiet.flags = SendFlags::kNone;
  ASSERT_TRUE(rig.post(quiet));
  const auto loud = rig.post(SendOpcode::kSend, 10);
  rig.drain();
  rig.ack(Psn(101));
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{loud, WcStatus::kSuccess}}));
  EXPECT_TRUE(rig.queue().is_empty());
}

TEST(RcRequester, CompletionsHaveTheOpcodeOfTheRequest) {
  const std::pair<SendOpcode, WcOpcode> kPairs[] = {{SendOpcode::kSend, WcOpcode::kSend},
                                                    {SendOpcode::kSendImm, WcOpcode::kSend},
                                                    {SendOpcode::kSendInvalidate, WcOpcode::kSend},
                                                    {SendOpcode::kWrite, WcOpcode::kWrite},
                                                    {SendOpcode::kWriteImm, WcOpcode::kWrite}};
  RequesterRig rig;
  for (const auto& [opcode, reported] : kPairs) {
    const auto id = rig.post(opcode, 24);
    rig.drain();
    rig.ack(rig.machine().next_psn() - 1);
    const auto completions = rig.completions();
    ASSERT_EQ(completions.size(), 1U);
    EXPECT_EQ(completions[0].wr_id, id);
    EXPECT_EQ(completions[0].opcode, reported);
    EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
    EXPECT_EQ(completions[0].qp, kOurQp);
  }
}

// ---- READ, atomics, FLUSH, ATOMIC WRITE

TEST(RcRequester, AReadTakesASequenceNumberPerResponse) {
  Config config = RequesterRig::defaults();
  config.max_read_atomic = 8;
  RequesterRig rig(config);
  for (const std::uint32_t octets : {0U, 1U, 256U, 257U, 768U}) rig.post(SendOpcode::kRead, octets);
  rig.post(SendOpcode::kSend, 1);
  const auto packets = rig.drain();
  EXPECT_EQ(psns_of(packets), (Psns{100, 101, 102, 103, 105, 108}));
  const std::uint32_t lengths[] = {0, 1, 256, 257, 768};
  for (std::size_t i = 0; i < 5; ++i) {
    const auto view = packets[i].view();
    EXPECT_EQ(view.operation(), Operation::kReadRequest);
    EXPECT_EQ(view.reth().address, RequesterRig::kRemoteAddress);
    EXPECT_EQ(view.reth().rkey, RequesterRig::kRemoteKey);
    EXPECT_EQ(view.reth().dma_octets, lengths[i]);
    EXPECT_TRUE(view.bth().ack_request());
    EXPECT_TRUE(view.payload().empty());
  }
}

TEST(RcRequester, ALongReadAsksInPieces) {
  Config config = RequesterRig::defaults();
  config.read_chunk_packets = 4;
  config.max_read_atomic = 2;
  RequesterRig rig(config);
  constexpr std::uint32_t kOctets = 10 * 256 + 7;  // eleven packets: 4, 4 and 3
  rig.post(SendOpcode::kRead, kOctets);
  auto packets = rig.drain();
  ASSERT_EQ(psns_of(packets), (Psns{100, 104}));
  EXPECT_EQ(packets[0].view().reth().dma_octets, 4U * 256);
  EXPECT_EQ(packets[1].view().reth().dma_octets, 4U * 256);
  EXPECT_EQ(packets[1].view().reth().address, RequesterRig::kRemoteAddress + 4 * 256);

  rig.answer_read(packets[0], Octets(4 * 256));
  packets = rig.drain();
  ASSERT_EQ(psns_of(packets), (Psns{108}));
  EXPECT_EQ(packets[0].view().reth().dma_octets, kOctets - 8 * 256);
  EXPECT_EQ(packets[0].view().reth().address, RequesterRig::kRemoteAddress + 8 * 256);
  EXPECT_EQ(rig.machine().next_psn(), Psn(111));
}

TEST(RcRequester, NoMoreReadsAndAtomicsAreInFlightThanAgreed) {
  Config config = RequesterRig::defaults();
  config.max_read_atomic = 2;
  RequesterRig rig(config);
  rig.post(SendOpcode::kRead, 8);
  rig.post(SendOpcode::kFetchAdd, 8);
  rig.post(SendOpcode::kCompareSwap, 8);
  rig.post(SendOpcode::kSend, 8);  // waits behind, in order
  EXPECT_EQ(psns_of(rig.drain()), (Psns{100, 101}));
  rig.answer(Operation::kReadResponseOnly, Psn(100), Octets(8));
  EXPECT_EQ(psns_of(rig.drain()), (Psns{102, 103}));
}

TEST(RcRequester, ReadsBehindManyOthersAreSentTogether) {
  Config config = RequesterRig::defaults();
  config.max_read_atomic = 128;
  RequesterRig rig(config);
  const auto post_one_by_one = [&](int count) {
    std::size_t sent = 0;
    for (int i = 0; i < count; ++i) {
      rig.post(SendOpcode::kRead, 8);
      sent += rig.drain().size();
    }
    return sent;
  };
  EXPECT_EQ(post_one_by_one(16), 16U);  // few are in flight: each is sent at once
  EXPECT_EQ(post_one_by_one(15), 0U);
  rig.post(SendOpcode::kRead, 8);
  EXPECT_EQ(rig.drain().size(), 16U);  // now they are a train
  EXPECT_EQ(post_one_by_one(3), 0U);
  // They do not wait for a train that never comes.
  for (std::uint32_t psn = 100; psn < 116; ++psn) {
    rig.answer(Operation::kReadResponseOnly, Psn(psn), Octets(8));
    EXPECT_EQ(rig.drain().size(), 0U) << psn;
  }
  rig.answer(Operation::kReadResponseOnly, Psn(116), Octets(8));
  EXPECT_EQ(rig.drain().size(), 1U);
  rig.answer(Operation::kReadResponseOnly, Psn(117), Octets(8));
  EXPECT_EQ(rig.drain().size(), 1U);
  // Nor do those that must be sent again.
  EXPECT_TRUE(rig.sleep());
  EXPECT_EQ(rig.drain().size(), 16U);
}

TEST(RcRequester, WithoutReadsAllowedAReadFailsInItsTurn) {
  Config config = RequesterRig::defaults();
  config.max_read_atomic = 0;
  RequesterRig rig(config);
  const auto before = rig.post(SendOpcode::kSend, 8);
  const auto read = rig.post(SendOpcode::kRead, 8);
  EXPECT_EQ(rig.drain().size(), 1U);
  EXPECT_FALSE(rig.machine().has_failed());
  rig.ack(Psn(100));
  EXPECT_TRUE(rig.machine().has_failed());
  EXPECT_EQ(outcomes_of(rig.completions()),
            (Outcomes{{before, WcStatus::kSuccess}, {read, WcStatus::kLocalQpOperation}}));
}

TEST(RcRequester, AtomicsCarryTheirOperands) {
  RequesterRig rig;
  SendRequest swap = rig.request(SendOpcode::kCompareSwap, 8);
  swap.compare_or_add = 0x1111'2222'3333'4444;
  swap.swap = 0x5555'6666'7777'8888;
  SendRequest add = rig.request(SendOpcode::kFetchAdd, 8);
  add.compare_or_add = 0x9999'aaaa'bbbb'cccc;
  add.swap = 0xdead;  // not an operand of this one
  ASSERT_TRUE(rig.post(swap) && rig.post(add));
  const auto packets = rig.drain();
  ASSERT_EQ(psns_of(packets), (Psns{100, 101}));
  const auto first = packets[0].view();
  EXPECT_EQ(first.operation(), Operation::kCompareSwap);
  EXPECT_EQ(first.atomic_eth().address, RequesterRig::kRemoteAddress);
  EXPECT_EQ(first.atomic_eth().rkey, RequesterRig::kRemoteKey);
  EXPECT_EQ(first.atomic_eth().compare, swap.compare_or_add);
  EXPECT_EQ(first.atomic_eth().swap_or_add, swap.swap);
  EXPECT_TRUE(first.bth().ack_request());
  const auto second = packets[1].view();
  EXPECT_EQ(second.operation(), Operation::kFetchAdd);
  EXPECT_EQ(second.atomic_eth().swap_or_add, add.compare_or_add);
  EXPECT_EQ(second.atomic_eth().compare, 0U);
}

TEST(RcRequester, FlushAndAtomicWriteCarryWhatTheAnnexSays) {
  RequesterRig rig;
  SendRequest flush = rig.request(SendOpcode::kFlush, 0);
  flush.flush_octets = 0x1'0000;
  flush.flush = {.selectivity = wire::Feth::kWholeRegion, .placement = wire::Feth::kPersistence};
  ASSERT_TRUE(rig.post(flush));
  const Octets value = rig.arena().scribble(0, 8);
  rig.post(SendOpcode::kAtomicWrite, 8);
  const auto packets = rig.drain();
  ASSERT_EQ(psns_of(packets), (Psns{100, 101}));
  const auto first = packets[0].view();
  EXPECT_EQ(first.operation(), Operation::kFlush);
  EXPECT_EQ(first.feth().selectivity, wire::Feth::kWholeRegion);
  EXPECT_EQ(first.feth().placement, wire::Feth::kPersistence);
  EXPECT_EQ(first.reth().address, RequesterRig::kRemoteAddress);
  EXPECT_EQ(first.reth().dma_octets, 0x1'0000U);
  const auto second = packets[1].view();
  EXPECT_EQ(second.operation(), Operation::kAtomicWrite);
  EXPECT_EQ(second.reth().dma_octets, 8U);
  EXPECT_EQ(packets[1].payload(), value);
}

// ---- Order

TEST(RcRequester, AFenceWaitsForReadsAndAtomicsBeforeIt) {
  RequesterRig rig;
  rig.post(SendOpcode::kRead, 300);
  rig.post(SendOpcode::kFetchAdd, 8);
  rig.post(SendOpcode::kSend, 8);  // without a fence it goes
  SendRequest fenced = rig.request(SendOpcode::kSend, 8);
  fenced.flags = SendFlags::kSignaled | SendFlags::kFence;
  ASSERT_TRUE(rig.post(fenced));
  const auto packets = rig.drain();
  EXPECT_EQ(psns_of(packets), (Psns{100, 102, 103}));
  rig.answer_read(packets[0], Octets(300));
  EXPECT_TRUE(rig.drain().empty());
  rig.atomic_ack(Psn(102), 1);
  EXPECT_EQ(psns_of(rig.drain()), (Psns{104}));  // the SEND before it need not be acknowledged
}

TEST(RcRequester, WhilePausedNothingIsStartedAndWhatWasStartedIsFinished) {
  Config config = RequesterRig::defaults();
  config.window_packets = 2;
  RequesterRig rig(config);
  rig.post(SendOpcode::kSend, 4 * 256);
  rig.post(SendOpcode::kSend, 1);
  EXPECT_EQ(rig.drain().size(), 2U);
  rig.machine().pause(true);
  rig.ack(Psn(101));
  EXPECT_EQ(psns_of(rig.drain()), (Psns{102, 103}));
  EXPECT_FALSE(rig.machine().is_drained());
  rig.ack(Psn(103));
  EXPECT_TRUE(rig.drain().empty());
  EXPECT_TRUE(rig.machine().is_drained());
  rig.machine().pause(false);
  EXPECT_EQ(psns_of(rig.drain()), (Psns{104}));
}

class RcRequesterWindowTest : public testing::Test {
 protected:
  /// Binds a type 2 window of the queue pair; returns its key.
  wire::MemoryKey bound_window() {
    const auto window =
        *rig_.arena().registry().allocate_window(kHome, memory::KeyKind::kWindowType2B);
    VB_ASSERT(memory::bind_type2(rig_.arena().keys(), {.domain = kHome, .qp = kOurQp},
                                 bind_of(window)) == memory::BindRefusal::kNone);
    return window;
  }
  memory::BindRequest bind_of(wire::MemoryKey window) {
    return {.window_key = window,
            .new_key = window,
            .region_key = rig_.arena().key(),
            .address = rig_.arena().address(),
            .octets = 64,
            .access = memory::Access::kRemoteRead};
  }
  bool works(wire::MemoryKey key) {
    return rig_.arena()
        .keys()
        .check_remote({.key = key,
                       .domain = kHome,
                       .qp = kOurQp,
                       .address = rig_.arena().address(),
                       .octets = 1,
                       .need = memory::Access::kRemoteRead})
        .ok();
  }

  RequesterRig rig_;
};

TEST_F(RcRequesterWindowTest, ALocalInvalidateWaitsForEverythingBeforeAndHoldsWhatIsBehind) {
  const auto key = bound_window();
  const auto first = rig_.post(SendOpcode::kSend, 8);
  SendRequest invalidate = rig_.request(SendOpcode::kLocalInvalidate, 0);
  invalidate.invalidate_key = key;
  ASSERT_TRUE(rig_.post(invalidate));
  const auto last = rig_.post(SendOpcode::kSend, 8);
  EXPECT_EQ(psns_of(rig_.drain()), (Psns{100}));
  EXPECT_TRUE(works(key));
  rig_.ack(Psn(100));
  EXPECT_EQ(psns_of(rig_.drain()), (Psns{101}));  // the invalidate takes no sequence number
  EXPECT_FALSE(works(key));
  rig_.ack(Psn(101));
  const auto completions = rig_.completions();
  EXPECT_EQ(outcomes_of(completions), (Outcomes{{first, WcStatus::kSuccess},
                                                {invalidate.wr_id, WcStatus::kSuccess},
                                                {last, WcStatus::kSuccess}}));
  EXPECT_EQ(completions[1].opcode, WcOpcode::kLocalInvalidate);
}

TEST_F(RcRequesterWindowTest, ABindTakesEffectInItsTurn) {
  const auto window =
      *rig_.arena().registry().allocate_window(kHome, memory::KeyKind::kWindowType2B);
  rig_.post(SendOpcode::kRead, 8);
  SendRequest bind = rig_.request(SendOpcode::kBindWindow, 0);
  bind.bind = bind_of(window);
  ASSERT_TRUE(rig_.post(bind));
  EXPECT_EQ(rig_.drain().size(), 1U);
  EXPECT_FALSE(works(window));
  rig_.answer(Operation::kReadResponseOnly, Psn(100), Octets(8));
  EXPECT_TRUE(rig_.drain().empty());
  EXPECT_TRUE(works(window));
  const auto completions = rig_.completions();
  ASSERT_EQ(completions.size(), 2U);
  EXPECT_EQ(completions[1].wr_id, bind.wr_id);
  EXPECT_EQ(completions[1].opcode, WcOpcode::kBindWindow);
}

TEST_F(RcRequesterWindowTest, ABindThatIsRefusedEndsTheConnection) {
  SendRequest bind = rig_.request(SendOpcode::kBindWindow, 0);
  bind.flags = SendFlags::kNone;  // failures are reported all the same
  bind.bind = bind_of(wire::MemoryKey{0x1234'5678});
  ASSERT_TRUE(rig_.post(bind));
  rig_.post(SendOpcode::kSend, 8);
  EXPECT_TRUE(rig_.drain().empty());
  EXPECT_TRUE(rig_.machine().has_failed());
  EXPECT_EQ(outcomes_of(rig_.completions()), (Outcomes{{bind.wr_id, WcStatus::kWindowBind}}));
}

TEST_F(RcRequesterWindowTest, AnInvalidateOfARegionIsRefused) {
  SendRequest invalidate = rig_.request(SendOpcode::kLocalInvalidate, 0);
  invalidate.invalidate_key = rig_.arena().key();
  ASSERT_TRUE(rig_.post(invalidate));
  EXPECT_TRUE(rig_.drain().empty());
  EXPECT_EQ(outcomes_of(rig_.completions()),
            (Outcomes{{invalidate.wr_id, WcStatus::kLocalQpOperation}}));
}

// ---- Local errors

TEST(RcRequester, AProtectionErrorWaitsForEarlierRequestsAndThenTheRestIsFlushed) {
  RequesterRig rig;
  const auto first = rig.post(SendOpcode::kSend, 300);
  SendRequest broken = rig.request(SendOpcode::kWrite, 0);
  broken.flags = SendFlags::kNone;
  broken.list = rig.list({rig.arena().sge(0, 256), {.address = 0x10, .octets = 4, .lkey = {}}});
  ASSERT_TRUE(rig.post(broken));
  const auto third = rig.post(SendOpcode::kSend, 8);
  SendRequest quiet = rig.request(SendOpcode::kSend, 8);
  quiet.flags = SendFlags::kNone;
  ASSERT_TRUE(rig.post(quiet));

  EXPECT_EQ(rig.drain().size(), 3U);  // two packets of the first, one of the broken one
  EXPECT_EQ(rig.machine().in_flight(), 3U);
  EXPECT_FALSE(rig.machine().has_failed());
  EXPECT_TRUE(rig.completions().empty());
  rig.ack(Psn(101));
  EXPECT_TRUE(rig.machine().has_failed());
  EXPECT_TRUE(rig.drain().empty());
  rig.machine().flush();
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{first, WcStatus::kSuccess},
                                                      {broken.wr_id, WcStatus::kLocalProtection},
                                                      {third, WcStatus::kFlushed},
                                                      {quiet.wr_id, WcStatus::kFlushed}}));
  EXPECT_TRUE(rig.queue().is_empty());
  EXPECT_EQ(rig.machine().next_timeout(), Instant::never());
}

TEST(RcRequester, AProtectionErrorOfTheOldestRequestIsReportedAtOnceWithItsReason) {
  RequesterRig rig;
  SendRequest broken = rig.request(SendOpcode::kSend, 0);
  broken.list = rig.list({{.address = rig.arena().address(Arena::kOctets - 4),
                           .octets = 8,
                           .lkey = rig.arena().key()}});
  ASSERT_TRUE(rig.post(broken));
  EXPECT_TRUE(rig.drain().empty());
  const auto completions = rig.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].status, WcStatus::kLocalProtection);
  EXPECT_EQ(Reason{completions[0].detail}, reason_of(memory::Refusal::kBeyondRange));
}

TEST(RcRequester, AFailedRequestWaitsAlsoThroughRetriesOfEarlierOnes) {
  RequesterRig rig;
  const auto first = rig.post(SendOpcode::kSend, 8);
  SendRequest broken = rig.request(SendOpcode::kSend, 0);
  broken.list = rig.list({{.address = 1, .octets = 1, .lkey = wire::MemoryKey{5}}});
  ASSERT_TRUE(rig.post(broken));
  EXPECT_EQ(rig.drain().size(), 1U);
  ASSERT_TRUE(rig.sleep());
  EXPECT_EQ(psns_of(rig.drain()), (Psns{100}));
  EXPECT_FALSE(rig.machine().has_failed());
  rig.ack(Psn(100));
  EXPECT_EQ(outcomes_of(rig.completions()),
            (Outcomes{{first, WcStatus::kSuccess}, {broken.wr_id, WcStatus::kLocalProtection}}));
}

TEST(RcRequester, MemoryThatIsGoneFailsTheRequestThatIsBeingSent) {
  RequesterRig rig;
  const auto first = rig.post(SendOpcode::kSend, 8);
  const auto second = rig.post(SendOpcode::kSend, 300);
  EXPECT_EQ(rig.poll()->psn(), Psn(100));
  rig.machine().handle_fault_while_sending();
  EXPECT_TRUE(rig.drain().empty());
  EXPECT_FALSE(rig.machine().has_failed());
  rig.ack(Psn(100));
  const auto completions = rig.completions();
  EXPECT_EQ(outcomes_of(completions),
            (Outcomes{{first, WcStatus::kSuccess}, {second, WcStatus::kLocalProtection}}));
  EXPECT_EQ(Reason{completions[1].detail}, Reason::kMemoryGone);
}

TEST(RcRequester, MemoryThatIsGoneFailsTheReadThatIsBeingPlaced) {
  RequesterRig rig;
  const auto read = rig.post(SendOpcode::kRead, 300);
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  rig.machine().handle_fault_while_placing();
  EXPECT_TRUE(rig.machine().has_failed());
  rig.machine().handle_fault_while_placing();  // spurious calls are harmless
  rig.machine().handle_fault_while_sending();
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{read, WcStatus::kLocalProtection}}));
}

TEST(RcRequester, AReadIntoMemoryThatMayNotBeWrittenEndsTheConnection) {
  RequesterRig rig;
  SendRequest read = rig.request(SendOpcode::kRead, 8);
  auto sge = rig.arena().sge(0, 8);
  sge.lkey = rig.arena().region(memory::Access::kRemoteRead);
  read.list = rig.list({sge});
  ASSERT_TRUE(rig.post(read));
  ASSERT_EQ(rig.drain().size(), 1U);
  rig.answer(Operation::kReadResponseOnly, Psn(100), Octets(8, std::byte{1}));
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{read.wr_id, WcStatus::kLocalProtection}}));
  EXPECT_EQ(rig.arena().copy(0, 8), Octets(8));
}

TEST(RcRequester, StartingAgainBeginsWithAnEmptyHistory) {
  RequesterRig rig;
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  rig.nak(Psn(100), 0x62);
  EXPECT_TRUE(rig.machine().has_failed());
  rig.machine().flush();
  rig.queue().clear();
  Config config = rig.config();
  config.first_psn = Psn(7000);
  rig.machine().start(config, test_path());
  EXPECT_FALSE(rig.machine().has_failed());
  EXPECT_EQ(rig.machine().next_timeout(), Instant::never());
  rig.completions();
  const auto id = rig.post(SendOpcode::kSend, 8);
  EXPECT_EQ(psns_of(rig.drain()), (Psns{7000}));
  rig.ack(Psn(7000));
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{id, WcStatus::kSuccess}}));
}

}  // namespace
}  // namespace verbatim::transport
