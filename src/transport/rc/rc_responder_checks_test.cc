// SPDX-License-Identifier: Apache-2.0
// What a responder checks before it executes a request, in the order of the checks.
#include "transport/rc/rc_responder.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "memory/window.h"
#include "transport/rc/test_rc_responder.h"

namespace verbatim::transport {
namespace {

using namespace test;
using memory::Access;
using wire::Operation;
using wire::Psn;

// ---- Check 3: the sequence of opcodes

constexpr Operation kContinuingSends[] = {Operation::kSendMiddle, Operation::kSendLast,
                                          Operation::kSendLastImm, Operation::kSendLastInvalidate};
constexpr Operation kContinuingWrites[] = {Operation::kWriteMiddle, Operation::kWriteLast,
                                           Operation::kWriteLastImm};
constexpr Operation kBeginnings[] = {
    Operation::kSendFirst,          Operation::kSendOnly,    Operation::kSendOnlyImm,
    Operation::kWriteFirst,         Operation::kWriteOnly,   Operation::kWriteOnlyImm,
    Operation::kReadRequest,        Operation::kCompareSwap, Operation::kFetchAdd,
    Operation::kSendOnlyInvalidate, Operation::kFlush,       Operation::kAtomicWrite};

TEST_F(RcResponderTest, NothingContinuesWhatHasNotBegun) {
  const auto try_one = [](Operation operation) {
    SCOPED_TRACE(static_cast<int>(operation));
    RcRig rig;
    rig.post_receive(1000);
    deliver_any(rig, operation, 500);
    const auto packets = rig.drain();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].view().aeth().syndrome.raw(), kInvalidRequest);
    EXPECT_EQ(packets[0].psn(), Psn(500));
    EXPECT_TRUE(rig.state().failed && rig.state().event_due);
    EXPECT_EQ(rig.state().event, QpEvent::kRequestError);
    EXPECT_EQ(rig.state().reason, Reason::kOutOfOrderOpcode);
    EXPECT_EQ(rig.posted_count(), 1U);  // no receive was touched
  };
  for (const Operation operation : kContinuingSends) try_one(operation);
  for (const Operation operation : kContinuingWrites) try_one(operation);
}

TEST_F(RcResponderTest, NothingElseBeginsOrContinuesInsideASend) {
  const auto try_one = [](Operation operation) {
    SCOPED_TRACE(static_cast<int>(operation));
    RcRig rig;
    const auto id = rig.post_receive(1000);
    rig.post_receive(1000);
    rig.deliver(Operation::kSendFirst, 500, Octets(256));
    rig.drain();
    deliver_any(rig, operation, 501);
    const auto packets = rig.drain();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].view().aeth().syndrome.raw(), kInvalidRequest);
    EXPECT_EQ(packets[0].psn(), Psn(501));
    EXPECT_TRUE(rig.state().failed && !rig.state().event_due);
    const auto completions = rig.completions();
    ASSERT_EQ(completions.size(), 1U);
    EXPECT_EQ(completions[0].wr_id, id);
    EXPECT_EQ(completions[0].status, WcStatus::kRemoteInvalidRequest);
  };
  for (const Operation operation : kBeginnings) try_one(operation);
  for (const Operation operation : kContinuingWrites) try_one(operation);
}

TEST_F(RcResponderTest, NothingElseBeginsOrContinuesInsideAWrite) {
  const auto try_one = [](Operation operation) {
    SCOPED_TRACE(static_cast<int>(operation));
    RcRig rig;
    rig.post_receive(1000);
    rig.deliver(rig.headers(Operation::kWriteFirst, 500, 300), octets_of(256));
    rig.drain();
    deliver_any(rig, operation, 501);
    const auto packets = rig.drain();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].view().aeth().syndrome.raw(), kInvalidRequest);
    EXPECT_EQ(rig.state().event, QpEvent::kRequestError);
    EXPECT_EQ(rig.remote(0, 256), octets_of(256));  // what is written stays written
    EXPECT_TRUE(rig.completions().empty());
  };
  for (const Operation operation : kBeginnings) try_one(operation);
  for (const Operation operation : kContinuingSends) try_one(operation);
}

TEST_F(RcResponderTest, EveryRequestIsAcceptedWhereItBelongs) {
  for (const Operation operation : kBeginnings) {
    SCOPED_TRACE(static_cast<int>(operation));
    RcRig rig;
    const auto window =
        *rig.arena().registry().allocate_window(kHome, memory::KeyKind::kWindowType2B);
    ASSERT_EQ(memory::bind_type2(rig.arena().keys(), {.domain = kHome, .qp = kOurQp},
                                 {.window_key = window,
                                  .new_key = window,
                                  .region_key = rig.arena().key(),
                                  .address = rig.arena().address(),
                                  .octets = 8,
                                  .access = Access::kRemoteRead}),
              memory::BindRefusal::kNone);
    rig.post_receive(1000);
    if (operation == Operation::kSendOnlyInvalidate) {
      auto headers = rig.headers(operation, 500);
      headers.ieth.rkey = window;
      rig.deliver(headers);
    } else {
      deliver_any(rig, operation, 500);
    }
    EXPECT_FALSE(rig.state().failed);
    EXPECT_EQ(rig.state().expected_psn, Psn(501));
  }
}

// ---- Check 4: what the queue pair allows

TEST_F(RcResponderTest, AnOperationThatIsNotEnabledIsAnInvalidRequest) {
  const std::pair<Operation, Access> kNeeds[] = {{Operation::kWriteFirst, Access::kRemoteWrite},
                                                 {Operation::kWriteOnly, Access::kRemoteWrite},
                                                 {Operation::kWriteOnlyImm, Access::kRemoteWrite},
                                                 {Operation::kAtomicWrite, Access::kRemoteWrite},
                                                 {Operation::kReadRequest, Access::kRemoteRead},
                                                 {Operation::kCompareSwap, Access::kRemoteAtomic},
                                                 {Operation::kFetchAdd, Access::kRemoteAtomic}};
  constexpr Access kAll = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;
  for (const auto& [operation, need] : kNeeds) {
    SCOPED_TRACE(static_cast<int>(operation));
    RcRig rig;
    rig.state().access =
        Access(static_cast<std::uint32_t>(kAll) & ~static_cast<std::uint32_t>(need));
    rig.state().replay_limit = 0;  // checked later, as is the missing receive
    deliver_any(rig, operation, 500);
    const auto packets = rig.drain();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].view().aeth().syndrome.raw(), kInvalidRequest);
    EXPECT_EQ(rig.state().reason, Reason::kOperationNotEnabled);
    EXPECT_EQ(rig.state().event, QpEvent::kRequestError);
  }
}

TEST_F(RcResponderTest, ASendNeedsNoRemoteRights) {
  rig_.state().access = Access::kNone;
  rig_.post_receive(8);
  rig_.deliver(Operation::kSendOnly, 500, octets_of(8));
  expect_answer(kAck, 500, 1);
}

// ---- Check 5: receives and places to remember

TEST_F(RcResponderTest, WithoutAReceiveASendIsAskedToWait) {
  for (std::uint8_t code = 0; code < 32; ++code) {
    rig_.state().min_rnr_timer = code;
    rig_.deliver(Operation::kSendOnly, 500, octets_of(8));
    expect_answer(static_cast<std::uint8_t>(0x20 | code), 500, 0);
  }
  EXPECT_FALSE(rig_.state().failed);
  rig_.deliver(Operation::kSendOnly, 501, octets_of(8));  // behind the missing one: dropped
  expect_silence();
  const auto id = rig_.post_receive(8);
  rig_.deliver(Operation::kSendOnly, 500, octets_of(8));
  expect_answer(kAck, 500, 1);
  EXPECT_EQ(rig_.completions().at(0).wr_id, id);
}

TEST_F(RcResponderTest, EveryKindOfMessageThatNeedsAReceiveWaitsForIt) {
  for (const Operation operation :
       {Operation::kSendFirst, Operation::kSendOnly, Operation::kSendOnlyImm,
        Operation::kSendOnlyInvalidate, Operation::kWriteOnlyImm}) {
    RcRig rig;
    deliver_any(rig, operation, 500);
    const auto packets = rig.drain();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].view().aeth().syndrome.raw(), 0x2c);
    EXPECT_EQ(rig.state().expected_psn, Psn(500));
    EXPECT_FALSE(rig.state().failed);
  }
}

TEST_F(RcResponderTest, AWriteWithImmediateThatWaitsHasItsEarlierPacketsWritten) {
  const Octets data = octets_of(300);
  rig_.deliver(rig_.headers(Operation::kWriteFirst, 500, 300), std::span(data).first(256));
  expect_answer(kAck, 500, 0);
  rig_.deliver(Operation::kWriteLastImm, 501, std::span(data).subspan(256));
  expect_answer(0x2c, 501, 0);
  EXPECT_EQ(rig_.remote(0, 256), Octets(data.begin(), data.begin() + 256));
  rig_.post_receive(0);
  rig_.deliver(Operation::kWriteLastImm, 501, std::span(data).subspan(256));
  expect_answer(kAck, 501, 1);
  EXPECT_EQ(rig_.remote(0, 300), data);
  EXPECT_EQ(rig_.completions().at(0).octets, 300U);
}

TEST_F(RcResponderTest, AMissingReceiveIsNoticedBeforeAWrongLength) {
  rig_.deliver(Operation::kSendOnly, 500, Octets(300));
  expect_answer(0x2c, 500, 0);
  EXPECT_FALSE(rig_.state().failed);
}

TEST_F(RcResponderTest, NoReadsAgreedNoReads) {
  for (const Operation operation :
       {Operation::kReadRequest, Operation::kCompareSwap, Operation::kFetchAdd, Operation::kFlush,
        Operation::kAtomicWrite}) {
    RcRig rig;
    rig.state().replay_limit = 0;
    deliver_any(rig, operation, 500);
    const auto packets = rig.drain();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].view().aeth().syndrome.raw(), kInvalidRequest);
    EXPECT_EQ(rig.state().reason, Reason::kTooManyReads);
  }
}

TEST_F(RcResponderTest, MoreReadsAtOnceThanAgreedAreAnInvalidRequest) {
  rig_.state().replay_limit = 2;
  rig_.read(500, 8);
  rig_.fetch_add(501, 1);
  rig_.read(502, 8);
  const auto packets = rig_.drain();
  ASSERT_EQ(packets.size(), 3U);  // the answers to the first two, then the refusal
  EXPECT_EQ(packets[0].operation(), Operation::kReadResponseOnly);
  EXPECT_EQ(packets[1].operation(), Operation::kAtomicAcknowledge);
  EXPECT_EQ(packets[2].operation(), Operation::kAcknowledge);
  EXPECT_EQ(packets[2].view().aeth().syndrome.raw(), kInvalidRequest);
  EXPECT_EQ(packets[2].psn(), Psn(502));
  EXPECT_EQ(rig_.state().reason, Reason::kTooManyReads);
}

TEST_F(RcResponderTest, AsManyReadsAsAgreedMayFollowEachOtherForEver) {
  rig_.state().replay_limit = 2;
  for (std::uint32_t i = 0; i < 100; ++i) {
    rig_.read(500 + i, 8);
    if (i % 2 == 1) {
      EXPECT_EQ(rig_.drain().size(), 2U);
    }
  }
  EXPECT_FALSE(rig_.state().failed);
}

// ---- Check 6: lengths

struct LengthCase {
  const char* name;
  Operation before;  // kAcknowledge: nothing
  Operation operation;
  std::size_t octets;
  std::uint32_t dma_octets;
};

TEST_F(RcResponderTest, WrongLengthsAreInvalidRequests) {
  constexpr Operation kNothing = Operation::kAcknowledge;
  constexpr std::uint32_t kTooLong = 0x8000'0001;
  const LengthCase kCases[] = {
      {"short SEND First", kNothing, Operation::kSendFirst, 252, 0},
      {"empty SEND First", kNothing, Operation::kSendFirst, 0, 0},
      {"long SEND First", kNothing, Operation::kSendFirst, 260, 0},
      {"short SEND Middle", Operation::kSendFirst, Operation::kSendMiddle, 255, 0},
      {"long SEND Middle", Operation::kSendFirst, Operation::kSendMiddle, 257, 0},
      {"empty SEND Last", Operation::kSendFirst, Operation::kSendLast, 0, 0},
      {"empty SEND Last with immediate", Operation::kSendFirst, Operation::kSendLastImm, 0, 0},
      {"long SEND Last", Operation::kSendFirst, Operation::kSendLast, 257, 0},
      {"long SEND Only", kNothing, Operation::kSendOnly, 257, 0},
      {"short WRITE First", kNothing, Operation::kWriteFirst, 252, 1000},
      {"long WRITE First", kNothing, Operation::kWriteFirst, 260, 1000},
      {"WRITE First that is all", kNothing, Operation::kWriteFirst, 256, 256},
      {"WRITE First that is more", kNothing, Operation::kWriteFirst, 256, 255},
      {"short WRITE Middle", Operation::kWriteFirst, Operation::kWriteMiddle, 252, 600},
      {"WRITE Middle that is all", Operation::kWriteFirst, Operation::kWriteMiddle, 256, 512},
      {"empty WRITE Last", Operation::kWriteFirst, Operation::kWriteLast, 0, 300},
      {"WRITE Last with too little", Operation::kWriteFirst, Operation::kWriteLast, 43, 300},
      {"WRITE Last with too much", Operation::kWriteFirst, Operation::kWriteLast, 45, 300},
      {"WRITE Only with too little", kNothing, Operation::kWriteOnly, 7, 8},
      {"WRITE Only with too much", kNothing, Operation::kWriteOnly, 9, 8},
      {"long WRITE Only", kNothing, Operation::kWriteOnly, 257, 257},
      {"empty WRITE Only of something", kNothing, Operation::kWriteOnly, 0, 8},
      {"WRITE of more than 2 GiB", kNothing, Operation::kWriteFirst, 256, kTooLong},
      {"READ of more than 2 GiB", kNothing, Operation::kReadRequest, 0, kTooLong},
      {"READ of all that fits", kNothing, Operation::kReadRequest, 0, 0xffff'ffff},
      {"ATOMIC WRITE of four octets", kNothing, Operation::kAtomicWrite, 4, 8},
      {"ATOMIC WRITE of sixteen", kNothing, Operation::kAtomicWrite, 16, 8},
      {"ATOMIC WRITE that says sixteen", kNothing, Operation::kAtomicWrite, 8, 16},
  };
  for (const LengthCase& c : kCases) {
    SCOPED_TRACE(c.name);
    RcRig rig;
    rig.post_receive(4096);
    std::uint32_t psn = 500;
    if (c.before != kNothing) {
      rig.deliver(rig.headers(c.before, psn++, c.dma_octets), Octets(256));
      ASSERT_FALSE(rig.state().failed);
      rig.drain();
    }
    rig.deliver(rig.headers(c.operation, psn, c.dma_octets), Octets(c.octets, std::byte{1}));
    const auto packets = rig.drain();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].view().aeth().syndrome.raw(), kInvalidRequest);
    EXPECT_EQ(packets[0].psn(), Psn(psn));
    EXPECT_EQ(packets[0].view().aeth().msn, 0U);
    EXPECT_TRUE(rig.state().failed);
    EXPECT_EQ(rig.state().reason, Reason::kBadPacketLength);
    const auto completions = rig.completions();
    const bool takes_receive = rig.state().event_due == false;
    EXPECT_EQ(completions.size(), takes_receive ? 1U : 0U);
    for (const auto& completion : completions) {
      EXPECT_EQ(completion.status, WcStatus::kRemoteInvalidRequest);
    }
    EXPECT_EQ(rig.remote(256, 8), Octets(8));
  }
}

TEST_F(RcResponderTest, ALengthIsJudgedBeforeAKey) {
  auto headers = rig_.headers(Operation::kWriteOnly, 500, 16);
  headers.reth.rkey = wire::MemoryKey{0x666};
  rig_.deliver(headers, Octets(8));
  expect_refusal(kInvalidRequest, QpEvent::kRequestError, Reason::kBadPacketLength);
}

TEST_F(RcResponderTest, ExactlyTwoGibioctetsAreAQuestionOfTheKey) {
  auto headers = rig_.headers(Operation::kReadRequest, 500, 0x8000'0000);
  rig_.deliver(headers);
  expect_refusal(kRemoteAccess, QpEvent::kAccessError, reason_of(memory::Refusal::kBeyondRange));
}

TEST_F(RcResponderTest, AMessageLongerThanItsReceiveFailsAtBothEnds) {
  const auto id = rig_.post_receive(300);
  rig_.post_receive(300);
  rig_.deliver(Operation::kSendFirst, 500, octets_of(256));
  expect_answer(kAck, 500, 0);
  rig_.deliver(Operation::kSendLast, 501, octets_of(45));
  expect_answer(kInvalidRequest, 501, 0);
  expect_failed_receive(id, WcStatus::kLocalLength);
  EXPECT_EQ(rig_.arena().copy(300, 8), Octets(8));
}

TEST_F(RcResponderTest, AMessageThatJustFitsFits) {
  rig_.post_receive(300);
  rig_.deliver(Operation::kSendFirst, 500, octets_of(256));
  rig_.deliver(Operation::kSendLast, 501, octets_of(44));
  expect_answer(kAck, 501, 1);
}

TEST_F(RcResponderTest, AMisalignedAtomicIsAnInvalidRequest) {
  for (const Operation operation :
       {Operation::kCompareSwap, Operation::kFetchAdd, Operation::kAtomicWrite}) {
    for (std::uint64_t offset = 1; offset < 8; ++offset) {
      RcRig rig;
      auto headers = rig.headers(operation, 500, 8);
      headers.reth.address += offset;
      headers.atomic_eth.address += offset;
      const bool has_payload = operation == Operation::kAtomicWrite;
      rig.deliver(headers, Octets(has_payload ? 8 : 0));
      const auto packets = rig.drain();
      ASSERT_EQ(packets.size(), 1U);
      EXPECT_EQ(packets[0].view().aeth().syndrome.raw(), kInvalidRequest);
      EXPECT_EQ(rig.state().reason, Reason::kMisaligned);
      EXPECT_EQ(rig.state().event, QpEvent::kRequestError);
    }
  }
}

// The first octet of a zero-based region has address 0: the address may be a multiple of eight
// although the place in memory is not.
TEST_F(RcResponderTest, AnAtomicOnAMisalignedPlaceIsAnInvalidRequest) {
  for (const Operation operation :
       {Operation::kCompareSwap, Operation::kFetchAdd, Operation::kAtomicWrite}) {
    RcRig rig;
    const auto key = *rig.arena().registry().register_region(
        {.domain = kHome,
         .address = rig.arena().address(Receiver::kRemote + 3),
         .octets = 64,
         .access = kAllRights | Access::kZeroBased});
    auto headers = rig.headers(operation, 500, 8);
    headers.reth.address = headers.atomic_eth.address = 16;
    headers.reth.rkey = headers.atomic_eth.rkey = key;
    const bool has_payload = operation == Operation::kAtomicWrite;
    rig.deliver(headers, Octets(has_payload ? 8 : 0, std::byte{1}));
    const auto packets = rig.drain();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].view().aeth().syndrome.raw(), kInvalidRequest);
    EXPECT_EQ(rig.state().reason, Reason::kMisaligned);
    EXPECT_EQ(rig.remote(0, 64), Octets(64));
  }
}

// ---- Check 7: keys

TEST_F(RcResponderTest, AKeyThatDoesNotAllowItIsAnAccessError) {
  constexpr Access kReadOnly = Access::kRemoteRead | Access::kLocalWrite;
  constexpr Access kWriteOnly = Access::kRemoteWrite | Access::kLocalWrite;
  struct Case {
    const char* name;
    Operation operation;
    Access access;
    memory::DomainId domain;
    std::size_t offset;
    memory::Refusal refusal;
  };
  using memory::Refusal;
  const Case kCases[] = {
      {"WRITE", Operation::kWriteOnly, kReadOnly, kHome, 0, Refusal::kNoRemoteWrite},
      {"ATOMIC WRITE", Operation::kAtomicWrite, kReadOnly, kHome, 0, Refusal::kNoRemoteWrite},
      {"READ", Operation::kReadRequest, kWriteOnly, kHome, 0, Refusal::kNoRemoteRead},
      {"compare", Operation::kCompareSwap, kReadOnly, kHome, 0, Refusal::kNoRemoteAtomic},
      {"add", Operation::kFetchAdd, kWriteOnly, kHome, 0, Refusal::kNoRemoteAtomic},
      {"FLUSH", Operation::kFlush, kWriteOnly, kHome, 0, Refusal::kNoFlush},
      {"domain", Operation::kWriteOnly, kAllRights, kAbroad, 0, Refusal::kOtherDomain},
      {"end", Operation::kWriteOnly, kAllRights, kHome, 64, Refusal::kBeyondRange},
      {"READ end", Operation::kReadRequest, kAllRights, kHome, 64, Refusal::kBeyondRange},
      {"add end", Operation::kFetchAdd, kAllRights, kHome, 64, Refusal::kBeyondRange},
      {"begin", Operation::kWriteOnly, kAllRights, kHome, std::size_t{0} - 8, Refusal::kBelowRange},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    RcRig rig;
    const auto key = rig.arena().region(c.access, Receiver::kRemote, 64, c.domain);
    auto headers = rig.headers(c.operation, 500, 8);
    headers.reth.rkey = headers.atomic_eth.rkey = key;
    headers.reth.address += c.offset;
    headers.atomic_eth.address += c.offset;
    const bool has_payload =
        c.operation == Operation::kWriteOnly || c.operation == Operation::kAtomicWrite;
    rig.deliver(headers, Octets(has_payload ? 8 : 0, std::byte{1}));
    const auto packets = rig.drain();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].operation(), Operation::kAcknowledge);
    EXPECT_EQ(packets[0].view().aeth().syndrome.raw(), kRemoteAccess);
    EXPECT_EQ(packets[0].view().aeth().msn, 0U);
    EXPECT_EQ(rig.state().reason, reason_of(c.refusal));
    EXPECT_EQ(rig.state().event, QpEvent::kAccessError);
    EXPECT_TRUE(rig.state().event_due);
    EXPECT_EQ(rig.remote(0, 80), Octets(80));
  }
}

TEST_F(RcResponderTest, TheWholeRangeOfAWriteIsJudgedAtItsFirstPacket) {
  const auto key = rig_.arena().region(kAllRights, Receiver::kRemote, 256);
  auto headers = rig_.headers(Operation::kWriteFirst, 500, 257);
  headers.reth.rkey = key;
  rig_.deliver(headers, octets_of(256));
  expect_refusal(kRemoteAccess, QpEvent::kAccessError);
  EXPECT_EQ(rig_.remote(0, 256), Octets(256));
}

TEST_F(RcResponderTest, AKeyThatGoesAwayInTheMiddleOfAWriteStopsIt) {
  const auto key = rig_.arena().region(kAllRights, Receiver::kRemote, 4096);
  auto headers = rig_.headers(Operation::kWriteFirst, 500, 300);
  headers.reth.rkey = key;
  rig_.deliver(headers, octets_of(256));
  expect_answer(kAck, 500, 0);
  ASSERT_TRUE(rig_.arena().registry().deregister_region(key).ok());
  rig_.deliver(Operation::kWriteLast, 501, octets_of(44));
  expect_answer(kRemoteAccess, 501, 0);
  EXPECT_EQ(rig_.state().event, QpEvent::kAccessError);
  EXPECT_EQ(rig_.remote(0, 256), octets_of(256));
  EXPECT_EQ(rig_.remote(256, 44), Octets(44));
}

TEST_F(RcResponderTest, ARefusedWriteWithImmediateReportsTheReceiveThatItTook) {
  const auto id = rig_.post_receive(8);
  auto headers = rig_.headers(Operation::kWriteOnlyImm, 500, 8);
  headers.reth.rkey = wire::MemoryKey{0x666};
  rig_.deliver(headers, Octets(8));
  expect_answer(kRemoteAccess, 500, 0);
  expect_failed_receive(id, WcStatus::kLocalAccess);
}

// ---- Check 8: the receive list

TEST_F(RcResponderTest, AReceiveThatCannotBeFilledIsAnOperationError) {
  auto bad = rig_.arena().sge(0, 64);
  bad.lkey = rig_.arena().region(Access::kRemoteRead);  // no local write
  const auto id = rig_.post_receive(std::vector{bad});
  rig_.deliver(Operation::kSendOnly, 500, octets_of(8));
  expect_answer(kRemoteOperation, 500, 0);
  EXPECT_EQ(rig_.state().reason, reason_of(memory::Refusal::kNoLocalWrite));
  expect_failed_receive(id, WcStatus::kLocalProtection);
  EXPECT_EQ(rig_.arena().copy(0, 8), Octets(8));
}

TEST_F(RcResponderTest, AReceiveWhoseMemoryIsUnmappedIsAnOperationError) {
  const auto id = rig_.post_receive(512);
  rig_.deliver(Operation::kSendFirst, 500, octets_of(256));
  expect_answer(kAck, 500, 0);
  rig_.machine().handle_fault_while_executing();
  expect_answer(kRemoteOperation, 501, 0);
  EXPECT_EQ(rig_.state().reason, Reason::kMemoryGone);
  expect_failed_receive(id, WcStatus::kLocalProtection);
}

}  // namespace
}  // namespace verbatim::transport
