// SPDX-License-Identifier: Apache-2.0
#include "transport/rules/packet_rules.h"

#include <gtest/gtest.h>

#include <string_view>

namespace verbatim::transport {
namespace {

using wire::Operation;
using wire::PayloadRule;

const wire::OpcodeInfo& info_of(Operation operation) {
  return wire::describe(wire::opcode_of(wire::Transport::kRc, operation));
}

/// Which operations may come outside a message, inside a SEND and inside a WRITE (IBA Vol 1,
/// 9.7.4.1.2).
struct Row {
  Operation operation;
  std::string_view allowed;
};
constexpr Row kRows[] = {
    {Operation::kSendFirst, "+.."},          {Operation::kSendMiddle, ".+."},
    {Operation::kSendLast, ".+."},           {Operation::kSendLastImm, ".+."},
    {Operation::kSendLastInvalidate, ".+."}, {Operation::kSendOnly, "+.."},
    {Operation::kSendOnlyImm, "+.."},        {Operation::kSendOnlyInvalidate, "+.."},
    {Operation::kWriteFirst, "+.."},         {Operation::kWriteMiddle, "..+"},
    {Operation::kWriteLast, "..+"},          {Operation::kWriteLastImm, "..+"},
    {Operation::kWriteOnly, "+.."},          {Operation::kWriteOnlyImm, "+.."},
    {Operation::kReadRequest, "+.."},        {Operation::kCompareSwap, "+.."},
    {Operation::kFetchAdd, "+.."},           {Operation::kFlush, "+.."},
    {Operation::kAtomicWrite, "+.."},
};

TEST(PacketRules, AMessageIsContinuedByItsOwnKindAlone) {
  for (const Row& row : kRows) {
    for (const auto inbound : {Inbound::kNone, Inbound::kSend, Inbound::kWrite}) {
      const auto got = check_sequence(inbound, info_of(row.operation), kind_of(row.operation));
      const bool expected = row.allowed[static_cast<std::size_t>(inbound)] == '+';
      EXPECT_EQ(got.accepted(), expected) << static_cast<int>(row.operation);
      if (!expected) {
        EXPECT_EQ(got.verdict, Verdict::kInvalidRequest);
        EXPECT_EQ(got.reason, Reason::kOutOfOrderOpcode);
      }
    }
  }
}

TEST(PacketRules, APayloadHasALengthOfItsOpcode) {
  constexpr std::uint32_t kMtu = 256;
  constexpr std::size_t kLengths[] = {0, 1, 8, 255, 256, 257};
  struct Lengths {
    PayloadRule rule;
    std::string_view allowed;
  };
  constexpr Lengths kTable[] = {
      {PayloadRule::kNone, "+....."},     {PayloadRule::kExactlyMtu, "....+."},
      {PayloadRule::kOneToMtu, ".++++."}, {PayloadRule::kUpToMtu, "+++++."},
      {PayloadRule::kEight, "..+..."},
  };
  for (const auto& [rule, allowed] : kTable) {
    for (std::size_t i = 0; i < allowed.size(); ++i) {
      const auto got = check_payload(rule, kLengths[i], kMtu);
      EXPECT_EQ(got.accepted(), allowed[i] == '+') << static_cast<int>(rule) << " " << kLengths[i];
      if (!got.accepted()) {
        EXPECT_EQ(got.verdict, Verdict::kInvalidRequest);
        EXPECT_EQ(got.reason, Reason::kBadPacketLength);
      }
    }
  }
}

TEST(PacketRules, AWriteHasTheLengthThatItAnnounced) {
  const auto accepts = [](Operation operation, std::uint64_t arrived, std::uint64_t octets) {
    return check_announced(info_of(operation), 600, arrived, octets).accepted();
  };
  EXPECT_TRUE(accepts(Operation::kWriteFirst, 0, 256));
  EXPECT_TRUE(accepts(Operation::kWriteMiddle, 256, 256));
  EXPECT_TRUE(accepts(Operation::kWriteLast, 512, 88));
  EXPECT_TRUE(accepts(Operation::kWriteOnly, 0, 600));
  EXPECT_FALSE(accepts(Operation::kWriteLast, 512, 87)) << "less";
  EXPECT_FALSE(accepts(Operation::kWriteLast, 512, 89)) << "more";
  EXPECT_FALSE(accepts(Operation::kWriteMiddle, 344, 256)) << "nothing is left for the last one";
  EXPECT_FALSE(accepts(Operation::kWriteOnly, 0, 256));
}

}  // namespace
}  // namespace verbatim::transport
