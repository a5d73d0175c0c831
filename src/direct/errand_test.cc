// SPDX-License-Identifier: Apache-2.0
#include "direct/errand.h"

#include <gtest/gtest.h>

#include <vector>

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

TEST(Errand, IsParsedWithTheOctetsThatItSays) {
  const Errand write = errand_of(SendOpcode::kWrite);
  Errand got;
  EXPECT_TRUE(got.parse(message_of(write, 100)));
  EXPECT_EQ(got.number, 7U);
  EXPECT_FALSE(got.parse(message_of(write, 99)));
  EXPECT_FALSE(got.parse(message_of(write, 101)));
  const auto whole = message_of(write, 0);
  EXPECT_FALSE(got.parse(std::span(whole).first(sizeof write - 1)));
}

TEST(Errand, OfMoreOctetsThanTheRequestHasIsNone) {
  Errand write = errand_of(SendOpcode::kWrite);
  write.offset = 3950;
  Errand got;
  EXPECT_FALSE(got.parse(message_of(write, 100)));
  write.offset = 3900;
  EXPECT_TRUE(got.parse(message_of(write, 100)));
}

// A peer that answers may say anything.
TEST(Errand, TakesOnlyItsEndFromAReply) {
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

TEST(Errand, FailsWithOtherOctetsThanWereAskedFor) {
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

}  // namespace
}  // namespace verbatim::direct
