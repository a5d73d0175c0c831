// SPDX-License-Identifier: Apache-2.0
#include "direct/errand.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "direct/target.h"
#include "direct/test_owner.h"

namespace verbatim::direct {
namespace {

using transport::SendOpcode;

Errand errand_of(SendOpcode opcode) {
  Errand errand{.number = 7, .offset = 0, .octets = 100, .is_first = true, .is_last = false};
  errand.entry.opcode = opcode;
  errand.entry.octets = 4000;
  return errand;
}

std::vector<std::byte> message_of(const Errand& errand, std::size_t octets) {
  std::vector<std::byte> message(sizeof errand + octets);
  std::memcpy(message.data(), &errand, sizeof errand);
  return message;
}

TEST(Errand, IsParsedOnlyWithTheRightNumberOfOctets) {
  const Errand write = errand_of(SendOpcode::kWrite);
  Errand got;
  EXPECT_TRUE(got.parse(message_of(write, 100)));
  EXPECT_EQ(got.number, 7U);
  EXPECT_FALSE(got.parse(message_of(write, 99)));
  EXPECT_FALSE(got.parse(message_of(write, 101)));
  const auto whole = message_of(write, 0);
  EXPECT_FALSE(got.parse(std::span(whole).first(sizeof write - 1)));
}

TEST(Errand, BeyondTheEndOfItsRequestIsRefused) {
  Errand write = errand_of(SendOpcode::kWrite);
  write.offset = 3950;
  Errand got;
  EXPECT_FALSE(got.parse(message_of(write, 100)));
  write.offset = 3900;
  EXPECT_TRUE(got.parse(message_of(write, 100)));
}

// A reply may have any content.
TEST(Errand, TakesOnlyTheAnswerFromAReply) {
  Errand asked = errand_of(SendOpcode::kRead);
  Errand reply = asked;
  reply.kind = Errand::Kind::kReply;
  reply.answer = Answer::kDone;
  reply.offset = 3000;
  reply.octets = 900;
  reply.is_last = true;
  reply.original = 5;
  reply.entry.opcode = SendOpcode::kWrite;
  asked.adopt(reply, 100);
  EXPECT_EQ(asked.answer, Answer::kDone);
  EXPECT_EQ(asked.original, 5U);
  EXPECT_EQ(asked.offset, 0U);
  EXPECT_EQ(asked.octets, 100U);
  EXPECT_FALSE(asked.is_last);
  EXPECT_EQ(asked.entry.opcode, SendOpcode::kRead);
}

TEST(Errand, FailsWhenAReplyHasAWrongNumberOfOctets) {
  Errand reply = errand_of(SendOpcode::kRead);
  reply.answer = Answer::kDone;
  for (const std::size_t octets : {0U, 99U, 101U, 900U}) {
    Errand asked = errand_of(SendOpcode::kRead);
    asked.adopt(reply, octets);
    EXPECT_EQ(asked.answer, Answer::kOperationError) << octets;
  }
  Errand written = errand_of(SendOpcode::kWrite);
  written.adopt(reply, 1);
  EXPECT_EQ(written.answer, Answer::kOperationError);
  written.adopt(reply, 0);
  EXPECT_EQ(written.answer, Answer::kDone);
}

// ---- Execution for a requester ----

class ErrandExecution : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(requester_.meet(), Target::Meeting::kMet);
    ASSERT_TRUE(stand_in_.stand_in());
  }
  /// The owner's answer to a whole request of that many octets.
  Answer execute(SendOpcode opcode, std::uint32_t octets, std::uint64_t original = 0) {
    errand_ = {.octets = octets, .is_first = true, .is_last = true, .original = original};
    errand_.entry = owner_->entry(opcode, octets);
    errand_.entry.compare_or_add = 5;
    direct::execute(errand_, octets_, stand_in_);
    return errand_.answer;
  }
  [[nodiscard]] std::uint64_t number() const {
    std::uint64_t value;
    std::memcpy(&value, owner_->region().data(), sizeof value);
    return value;
  }

  std::unique_ptr<test::Owner> owner_ = std::make_unique<test::Owner>(test::Owner::Receives::kOwn);
  Target requester_ = owner_->requester();
  Target stand_in_ = owner_->requester();
  Errand errand_;
  std::vector<std::byte> octets_{64, std::byte{7}};
};

TEST_F(ErrandExecution, MovesOctets) {
  EXPECT_EQ(execute(SendOpcode::kWrite, 64), Answer::kDone);
  EXPECT_EQ(owner_->region()[63], std::byte{7});
  owner_->region()[0] = std::byte{9};
  EXPECT_EQ(execute(SendOpcode::kRead, 64), Answer::kDone);
  EXPECT_EQ(octets_[0], std::byte{9});
  EXPECT_EQ(execute(SendOpcode::kSend, 64), Answer::kNotReady);
  ASSERT_TRUE(owner_->post_receive(5));
  EXPECT_EQ(execute(SendOpcode::kSend, 64), Answer::kDone);
  transport::Completion completion;
  ASSERT_TRUE(owner_->collect(completion));
  EXPECT_EQ(completion.wr_id, 5U);
}

TEST_F(ErrandExecution, ChangesEightOctets) {
  EXPECT_EQ(execute(SendOpcode::kAtomicWrite, 8, 37), Answer::kDone);
  EXPECT_EQ(number(), 37U);
  EXPECT_EQ(execute(SendOpcode::kFetchAdd, 8), Answer::kDone);
  EXPECT_EQ(errand_.original, 37U);
  EXPECT_EQ(number(), 42U);
}

TEST_F(ErrandExecution, DoesNotAnswerRequestsThatAreNoErrands) {
  EXPECT_EQ(execute(SendOpcode::kFlush, 0), Answer::kSilence);
  EXPECT_EQ(execute(SendOpcode::kBindWindow, 0), Answer::kSilence);
}

TEST_F(ErrandExecution, IsForTheRequesterThatHasClaimedTheHalf) {
  owner_->begin_again();
  EXPECT_FALSE(stand_in_.stand_in());
}

}  // namespace
}  // namespace verbatim::direct
