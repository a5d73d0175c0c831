// SPDX-License-Identifier: Apache-2.0
// The answers of a responder: acknowledgements and data, and their repetition for duplicates.
#include <gtest/gtest.h>

#include <vector>

#include "transport/rc/rc_responder.h"
#include "transport/rc/test_responder.h"

namespace verbatim::transport {
namespace {

using namespace test;
using memory::Access;
using wire::Operation;
using wire::Psn;

constexpr std::uint8_t kAck = 0x1f;
constexpr std::uint8_t kSequenceError = 0x60;

/// An answer in short: its operation, its sequence numbers and its syndrome (255 without one).
struct Answer {
  Operation operation{};
  std::uint32_t psn = 0;
  std::uint32_t msn = 0;
  unsigned syndrome = 255;
  friend bool operator==(const Answer&, const Answer&) = default;
  friend void PrintTo(const Answer& answer, std::ostream* out) {
    *out << "{op " << static_cast<int>(answer.operation) << " psn " << answer.psn << " msn "
         << answer.msn << " syndrome " << answer.syndrome << "}";
  }
};
using Answers = std::vector<Answer>;

class RcAnswersTest : public testing::Test {
 protected:
  RcAnswersTest() {
    for (int i = 0; i < 8; ++i) rig_.post_receive(256);
  }

  Answers answers() {
    Answers all;
    for (const TestPacket& packet : rig_.drain()) {
      const auto view = packet.view();
      Answer answer{.operation = view.operation(), .psn = view.psn().raw()};
      if (view.info().has(wire::OpcodeInfo::kAeth)) {
        answer.msn = view.aeth().msn;
        answer.syndrome = view.aeth().syndrome.raw();
      }
      all.push_back(answer);
    }
    return all;
  }
  static Answer ack(std::uint32_t psn, std::uint32_t msn) {
    return {Operation::kAcknowledge, psn, msn, kAck};
  }
  void send(std::uint32_t psn, bool ack_request = true) {
    auto headers = rig_.headers(Operation::kSendOnly, psn);
    headers.bth.ack_request = ack_request;
    rig_.deliver(headers, octets_of(8));
  }
  void write(std::uint32_t psn, std::uint8_t octet, bool ack_request = true) {
    auto headers = rig_.headers(Operation::kWriteOnly, psn, 1);
    headers.bth.ack_request = ack_request;
    rig_.deliver(headers, Octets{std::byte{octet}});
  }

  RcRig rig_;
};

// ---- Acknowledgements

TEST_F(RcAnswersTest, OnlyWhatAsksForItIsAcknowledged) {
  send(500, false);
  EXPECT_EQ(answers(), Answers{});
  send(501);
  EXPECT_EQ(answers(), (Answers{ack(501, 2)}));
}

TEST_F(RcAnswersTest, OneAckServesAWholeBurst) {
  for (std::uint32_t psn = 500; psn < 505; ++psn) send(psn);
  EXPECT_EQ(answers(), (Answers{ack(504, 5)}));
}

TEST_F(RcAnswersTest, APacketInsideAMessageIsAcknowledgedWithoutCountingTheMessage) {
  rig_.deliver(rig_.headers(Operation::kWriteFirst, 500, 300), Octets(256));
  EXPECT_EQ(answers(), (Answers{ack(500, 0)}));
  rig_.deliver(Operation::kWriteLast, 501, Octets(44));
  EXPECT_EQ(answers(), (Answers{ack(501, 1)}));
}

// ---- Gaps

TEST_F(RcAnswersTest, AGapIsReportedOnce) {
  send(500);
  EXPECT_EQ(answers(), (Answers{ack(500, 1)}));
  for (const std::uint32_t psn : {502U, 503U, 502U, 510U}) send(psn);
  EXPECT_EQ(answers(), (Answers{{Operation::kAcknowledge, 501, 1, kSequenceError}}));
  send(504);
  EXPECT_EQ(answers(), Answers{});
  send(501);
  EXPECT_EQ(answers(), (Answers{ack(501, 2)}));
  send(503);  // a new gap
  EXPECT_EQ(answers(), (Answers{{Operation::kAcknowledge, 502, 2, kSequenceError}}));
  EXPECT_EQ(rig_.completions().size(), 2U);
  EXPECT_EQ(rig_.machine().counters().out_of_sequence, 6U);
}

TEST_F(RcAnswersTest, HalfOfAllSequenceNumbersAreAheadAndHalfBehind) {
  send(500 + 0x7f'ffff);
  EXPECT_EQ(answers(), (Answers{{Operation::kAcknowledge, 500, 0, kSequenceError}}));
  EXPECT_EQ(rig_.machine().counters().out_of_sequence, 1U);
  send(500 + 0x80'0000);
  EXPECT_EQ(rig_.machine().counters().duplicates, 1U);
  EXPECT_EQ(answers(), (Answers{ack(499, 0)}));
  EXPECT_FALSE(rig_.state().failed);
}

TEST_F(RcAnswersTest, AGapThatClosesBeforeItIsReportedIsNone) {
  send(501);
  send(500, false);
  EXPECT_EQ(answers(), Answers{});
  send(502);
  EXPECT_EQ(answers(), (Answers{{Operation::kAcknowledge, 501, 1, kSequenceError}}));
}

TEST_F(RcAnswersTest, AnAckForADuplicateSurvivesTheEndOfAGap) {
  send(500);
  send(502);
  EXPECT_EQ(answers(), (Answers{{Operation::kAcknowledge, 501, 1, kSequenceError}}));
  send(500);         // goes back further than it had to
  send(501, false);  // nothing asks for an acknowledgement here
  EXPECT_EQ(answers(), (Answers{ack(500, 1)}));
}

// ---- READ

TEST_F(RcAnswersTest, AReadIsAnsweredInPacketsOfTheMtu) {
  const Octets data = rig_.arena().scribble(Receiver::kRemote, 700);
  rig_.read(500, 700);
  EXPECT_EQ(rig_.state().expected_psn, Psn(503));
  const auto packets = rig_.drain();
  ASSERT_EQ(packets.size(), 3U);
  Octets together;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto view = packets[i].view();
    constexpr Operation kShapes[] = {Operation::kReadResponseFirst, Operation::kReadResponseMiddle,
                                     Operation::kReadResponseLast};
    EXPECT_EQ(view.operation(), kShapes[i]);
    EXPECT_EQ(view.psn(), Psn(500 + static_cast<std::uint32_t>(i)));
    EXPECT_EQ(view.bth().dest_qp(), kPeerQp);
    if (i != 1) {
      EXPECT_EQ(view.aeth().syndrome.raw(), kAck);
      EXPECT_EQ(view.aeth().msn, 1U);
    }
    const Octets payload = packets[i].payload();
    together.insert(together.end(), payload.begin(), payload.end());
  }
  EXPECT_EQ(together, data);
}

TEST_F(RcAnswersTest, AReadOfOnePacketIsAnsweredByAnOnly) {
  for (const std::uint32_t octets : {0U, 1U, 255U, 256U}) {
    rig_.read(rig_.state().expected_psn.raw(), octets);
    const auto packets = rig_.drain();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].operation(), Operation::kReadResponseOnly);
    EXPECT_EQ(packets[0].payload().size(), octets);
  }
  EXPECT_EQ(rig_.state().expected_psn, Psn(504));
}

TEST_F(RcAnswersTest, AnswersLeaveInTheOrderOfTheirSequenceNumbers) {
  send(500);
  rig_.read(501, 300);  // 501, 502
  send(503);
  rig_.fetch_add(504, 1);
  send(505);
  EXPECT_EQ(answers(), (Answers{{Operation::kReadResponseFirst, 501, 2, kAck},
                                {Operation::kReadResponseLast, 502, 2, kAck},
                                {Operation::kAtomicAcknowledge, 504, 4, kAck},
                                ack(505, 5)}));
}

TEST_F(RcAnswersTest, AnAckThatIsOwedForSomethingBeforeAReadLeavesFirst) {
  send(500);
  rig_.read(501, 8);
  EXPECT_EQ(answers(), (Answers{ack(500, 1), {Operation::kReadResponseOnly, 501, 2, kAck}}));
}

TEST_F(RcAnswersTest, AGapIsReportedAfterTheDataThatIsOwed) {
  rig_.read(500, 300);
  send(505);
  EXPECT_EQ(answers(), (Answers{{Operation::kReadResponseFirst, 500, 1, kAck},
                                {Operation::kReadResponseLast, 501, 1, kAck},
                                {Operation::kAcknowledge, 502, 1, kSequenceError}}));
}

TEST_F(RcAnswersTest, AKeyThatGoesAwayInTheMiddleOfAReadIsRefusedThere) {
  const auto key = rig_.arena().region(kAllRights, Receiver::kRemote, 4096);
  send(500);
  auto read = rig_.headers(Operation::kReadRequest, 501, 600);
  read.reth.rkey = key;
  rig_.deliver(read);
  EXPECT_EQ(rig_.poll()->psn(), Psn(500));
  EXPECT_EQ(rig_.poll()->operation(), Operation::kReadResponseFirst);
  ASSERT_TRUE(rig_.arena().registry().deregister_region(key).ok());
  // The message that failed is the second: the refusal counts one.
  EXPECT_EQ(answers(), (Answers{{Operation::kAcknowledge, 502, 1, 0x62}}));
  EXPECT_TRUE(rig_.state().failed && rig_.state().event_due);
  EXPECT_EQ(rig_.state().event, QpEvent::kAccessError);
}

TEST_F(RcAnswersTest, MemoryThatIsUnmappedDuringAReadIsAnOperationError) {
  rig_.read(500, 600);
  send(503);
  EXPECT_EQ(rig_.poll()->operation(), Operation::kReadResponseFirst);
  rig_.machine().handle_fault_while_answering();
  EXPECT_EQ(answers(), (Answers{{Operation::kAcknowledge, 501, 0, 0x63}}));
  EXPECT_TRUE(rig_.state().failed && rig_.state().event_due);
  EXPECT_EQ(rig_.state().event, QpEvent::kFatal);
  EXPECT_EQ(rig_.state().reason, Reason::kMemoryGone);
}

TEST_F(RcAnswersTest, OwedAnswersAreSentBeforeARefusal) {
  rig_.read(500, 8);
  rig_.deliver(Operation::kSendLast, 501, Octets(8));
  EXPECT_EQ(answers(), (Answers{{Operation::kReadResponseOnly, 500, 1, kAck},
                                {Operation::kAcknowledge, 501, 1, 0x61}}));
}

TEST_F(RcAnswersTest, DroppedAnswersAreNotSent) {
  rig_.read(500, 300);
  send(502);
  EXPECT_TRUE(rig_.machine().owes_answers());
  rig_.machine().drop_answers();
  EXPECT_FALSE(rig_.machine().owes_answers());
  EXPECT_EQ(answers(), Answers{});
}

// ---- Duplicates of SEND and WRITE

TEST_F(RcAnswersTest, ADuplicateIsAcknowledgedAndNotExecuted) {
  write(500, 1);
  send(501);
  write(502, 2);
  EXPECT_EQ(answers(), (Answers{ack(502, 3)}));
  EXPECT_EQ(rig_.completions().size(), 1U);
  write(500, 9);
  EXPECT_EQ(answers(), (Answers{ack(502, 3)}));  // as much as there is, and nothing counted
  send(501);
  EXPECT_EQ(answers(), (Answers{ack(502, 3)}));
  EXPECT_TRUE(rig_.completions().empty());
  EXPECT_EQ(rig_.remote(0, 1), Octets{std::byte{2}});
  EXPECT_EQ(rig_.posted_count(), 7U);
  EXPECT_EQ(rig_.machine().counters().duplicates, 2U);
  EXPECT_EQ(rig_.state().expected_psn, Psn(503));
}

TEST_F(RcAnswersTest, ADuplicateThatDoesNotAskIsNotAcknowledged) {
  send(500, false);
  send(500, false);
  EXPECT_EQ(answers(), Answers{});
}

TEST_F(RcAnswersTest, ADuplicateBeforeAReadIsNotAcknowledgedBeyondIt) {
  send(500);
  send(501);
  rig_.read(502, 600);  // 502..504
  send(505);
  rig_.fetch_add(506, 1);
  send(507);
  EXPECT_EQ(answers().size(), 5U);
  send(500);
  EXPECT_EQ(answers(), (Answers{ack(501, 6)}));
  send(505);
  EXPECT_EQ(answers(), (Answers{ack(505, 6)}));
  send(507);
  EXPECT_EQ(answers(), (Answers{ack(507, 6)}));
}

// The number of a READ that stays in the replay for long would count as ahead, not as behind.
TEST_F(RcAnswersTest, AReadOfLongAgoDoesNotHoldAcknowledgementsBack) {
  // Larger than the memory, which is not read.
  const auto huge = *rig_.arena().registry().register_region({.domain = kHome,
                                                              .address = rig_.arena().address(),
                                                              .octets = kMaxMessageOctets,
                                                              .base = rig_.arena().address(),
                                                              .access = Access::kRemoteRead});
  rig_.read(500, 8);
  EXPECT_EQ(answers().size(), 1U);
  auto read = rig_.headers(Operation::kReadRequest, 501, 0x8000'0000);
  read.reth.address = rig_.arena().address();
  read.reth.rkey = huge;
  rig_.deliver(read);  // takes 2^23 sequence numbers
  rig_.machine().drop_answers();
  const std::uint32_t next = 501 + (1U << 23);
  ASSERT_EQ(rig_.state().expected_psn, Psn(next));
  send(next);
  EXPECT_EQ(answers(), (Answers{ack(next, 3)}));
  send(next);
  EXPECT_EQ(answers(), (Answers{ack(next, 3)}));
}

// ---- Duplicates of READs

class RcRepeatedReadTest : public RcAnswersTest {
 protected:
  RcRepeatedReadTest() : data_(rig_.arena().scribble(Receiver::kRemote, 1000)) {
    rig_.read(500, 1000);  // 500..503
    EXPECT_EQ(answers().size(), 4U);
  }
  Octets data_;
};

TEST_F(RcRepeatedReadTest, IsAnsweredAgainFromMemory) {
  data_ = rig_.arena().scribble(Receiver::kRemote, 1000, 99);
  rig_.read(500, 1000);
  const auto packets = rig_.drain();
  ASSERT_EQ(packets.size(), 4U);
  Octets together;
  for (const TestPacket& packet : packets) {
    const Octets payload = packet.payload();
    together.insert(together.end(), payload.begin(), payload.end());
  }
  EXPECT_EQ(together, data_);
  EXPECT_EQ(packets[0].operation(), Operation::kReadResponseFirst);
  EXPECT_EQ(packets[3].view().aeth().msn, 1U);  // a duplicate does not count
  EXPECT_EQ(rig_.state().expected_psn, Psn(504));
}

TEST_F(RcRepeatedReadTest, MayAskForTheRestOnly) {
  rig_.read(502, 1000 - 512, 512);
  const auto packets = rig_.drain();
  ASSERT_EQ(packets.size(), 2U);
  EXPECT_EQ(packets[0].operation(), Operation::kReadResponseFirst);
  EXPECT_EQ(packets[0].psn(), Psn(502));
  EXPECT_EQ(packets[0].payload(), Octets(data_.begin() + 512, data_.begin() + 768));
  EXPECT_EQ(packets[1].operation(), Operation::kReadResponseLast);
  EXPECT_EQ(packets[1].payload(), Octets(data_.begin() + 768, data_.end()));
  rig_.read(503, 1000 - 768, 768);
  EXPECT_EQ(answers(), (Answers{{Operation::kReadResponseOnly, 503, 1, kAck}}));
  rig_.read(500, 1000);  // and again all of it
  EXPECT_EQ(answers().size(), 4U);
}

TEST_F(RcRepeatedReadTest, IsDroppedWhenItIsNotTheRestOfTheOldOne) {
  rig_.read(501, 1000 - 256, 255);  // another place
  rig_.read(501, 1000 - 257, 256);  // ends earlier
  rig_.read(501, 1000 - 255, 256);  // ends later
  rig_.read(500, 256);              // only a part of the front
  auto read = rig_.headers(Operation::kReadRequest, 500, 1000);
  read.reth.rkey = rig_.arena().region(kAllRights);  // another key to the same octets
  rig_.deliver(read);
  rig_.read(499, 1000);  // before all that is remembered
  EXPECT_EQ(answers(), Answers{});
  EXPECT_FALSE(rig_.state().failed);
}

TEST_F(RcRepeatedReadTest, IsDroppedWhenTheKeyHasGone) {
  const auto key = rig_.arena().region(kAllRights, Receiver::kRemote, 4096);
  auto read = rig_.headers(Operation::kReadRequest, 504, 8);
  read.reth.rkey = key;
  rig_.deliver(read);
  EXPECT_EQ(answers().size(), 1U);
  ASSERT_TRUE(rig_.arena().registry().deregister_region(key).ok());
  rig_.deliver(read);
  EXPECT_EQ(answers(), Answers{});  // it may be a copy that the network kept back
  EXPECT_FALSE(rig_.state().failed);
}

TEST_F(RcRepeatedReadTest, WhileItIsBeingAnsweredBeginsAnew) {
  rig_.read(504, 600);  // 504..506
  EXPECT_EQ(rig_.poll()->psn(), Psn(504));
  rig_.read(504, 600);
  EXPECT_EQ(answers(), (Answers{{Operation::kReadResponseFirst, 504, 2, kAck},
                                {Operation::kReadResponseMiddle, 505, 0, 255},
                                {Operation::kReadResponseLast, 506, 2, kAck}}));
  EXPECT_FALSE(rig_.machine().owes_answers());
}

TEST_F(RcRepeatedReadTest, TwoRepeatedReadsAreAnsweredInOrder) {
  rig_.read(504, 8);
  EXPECT_EQ(answers().size(), 1U);
  rig_.read(504, 8);
  rig_.read(503, 1000 - 768, 768);
  EXPECT_EQ(answers(), (Answers{{Operation::kReadResponseOnly, 503, 1, kAck},
                                {Operation::kReadResponseOnly, 504, 2, kAck}}));
}

// ---- Duplicates of atomics, FLUSH and ATOMIC WRITE

TEST_F(RcAnswersTest, ARepeatedAtomicReturnsTheSavedValueAndIsNotExecuted) {
  rig_.set_remote_number(10);
  rig_.fetch_add(500, 5);
  rig_.fetch_add(501, 5);
  EXPECT_EQ(answers().size(), 2U);
  rig_.set_remote_number(1000);
  rig_.fetch_add(500, 5);
  auto packets = rig_.drain();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].operation(), Operation::kAtomicAcknowledge);
  EXPECT_EQ(packets[0].psn(), Psn(500));
  EXPECT_EQ(packets[0].view().atomic_ack_eth().original, 10U);
  EXPECT_EQ(packets[0].view().aeth().msn, 1U);
  rig_.fetch_add(501, 5);
  packets = rig_.drain();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].view().atomic_ack_eth().original, 15U);
  EXPECT_EQ(rig_.remote_number(), 1000U);
}

TEST_F(RcAnswersTest, AnAtomicThatIsNotRememberedAnyMoreIsDropped) {
  for (std::uint32_t i = 0; i < 5; ++i) {
    rig_.fetch_add(500 + i, 1);
    EXPECT_EQ(answers().size(), 1U);
  }
  rig_.fetch_add(500, 1);  // four are remembered
  EXPECT_EQ(answers(), Answers{});
  rig_.fetch_add(501, 1);
  EXPECT_EQ(rig_.drain().at(0).view().atomic_ack_eth().original, 1U);
  EXPECT_EQ(rig_.remote_number(), 5U);
}

TEST_F(RcAnswersTest, ARepeatedFlushAndAtomicWriteAreAnsweredAgain) {
  auto flush = rig_.headers(Operation::kFlush, 500, 64);
  rig_.deliver(flush);
  rig_.deliver(Operation::kAtomicWrite, 501, octets_of(8, 1));
  EXPECT_EQ(answers().size(), 2U);
  rig_.deliver(flush);
  EXPECT_EQ(answers(), (Answers{{Operation::kReadResponseOnly, 500, 1, kAck}}));
  rig_.deliver(Operation::kAtomicWrite, 501, octets_of(8, 2));
  EXPECT_EQ(answers(), (Answers{{Operation::kReadResponseOnly, 501, 2, kAck}}));
  EXPECT_EQ(rig_.remote(0, 8), octets_of(8, 1));
}

TEST_F(RcAnswersTest, ADuplicateOfAnotherKindIsDropped) {
  rig_.fetch_add(500, 1);
  rig_.deliver(rig_.headers(Operation::kFlush, 501, 8));
  rig_.read(502, 8);
  EXPECT_EQ(answers().size(), 3U);
  rig_.read(500, 8);
  rig_.deliver(rig_.headers(Operation::kFlush, 500, 8));
  rig_.fetch_add(501, 1);
  rig_.deliver(Operation::kAtomicWrite, 501, octets_of(8));
  rig_.fetch_add(502, 1);
  EXPECT_EQ(answers(), Answers{});
  EXPECT_EQ(rig_.remote_number(), 1U);
}

TEST_F(RcAnswersTest, AsManyAreRememberedAsMayBeInFlight) {
  rig_.state().replay_limit = static_cast<std::uint8_t>(kMaxReadAtomic);
  // More than once around, so that the numbers of the places wrap.
  constexpr std::uint32_t kCount = 3 * kMaxReadAtomic;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    rig_.fetch_add(500 + i, 1);
    ASSERT_EQ(answers().size(), 1U);
  }
  EXPECT_EQ(rig_.state().replay_count, kMaxReadAtomic);
  constexpr std::uint32_t kOldest = 500 + kCount - kMaxReadAtomic;
  rig_.fetch_add(kOldest - 1, 1);
  EXPECT_EQ(answers(), Answers{});
  // Repeated from the newest to the oldest, some at once, and answered in the order of their
  // numbers.
  for (const std::uint32_t together : {1U, 3U, kMaxReadAtomic}) {
    for (std::uint32_t end = kMaxReadAtomic; end >= together; end -= together) {
      for (std::uint32_t i = 1; i <= together; ++i) rig_.fetch_add(kOldest + end - i, 1);
      const auto packets = rig_.drain();
      ASSERT_EQ(packets.size(), together);
      for (std::uint32_t i = 0; i < together; ++i) {
        EXPECT_EQ(packets[i].psn(), Psn(kOldest + end - together + i));
        EXPECT_EQ(packets[i].view().atomic_ack_eth().original, kOldest + end - together + i - 500);
      }
    }
  }
  EXPECT_EQ(rig_.remote_number(), kCount);
}

TEST_F(RcAnswersTest, TheMemoryForRepetitionsShrinksWithItsLimit) {
  for (std::uint32_t i = 0; i < 4; ++i) {
    rig_.fetch_add(500 + i, 1);
    EXPECT_EQ(answers().size(), 1U);
  }
  rig_.state().replay_limit = 2;
  for (std::uint32_t i = 4; i < 40; ++i) {
    rig_.fetch_add(500 + i, 1);
    ASSERT_EQ(answers().size(), 1U);
    EXPECT_LE(rig_.state().replay_count, 2U);
  }
  rig_.fetch_add(537, 1);
  EXPECT_EQ(answers(), Answers{});
  rig_.fetch_add(538, 1);
  EXPECT_EQ(rig_.drain().at(0).view().atomic_ack_eth().original, 38U);
  EXPECT_EQ(rig_.state().replay_pending, 0U);
}

}  // namespace
}  // namespace verbatim::transport
