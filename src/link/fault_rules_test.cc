// SPDX-License-Identifier: Apache-2.0
#include "link/fault_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbatim::link {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Action = FaultRule::Action;
using Direction = FaultRule::Direction;

FaultRules accepted(std::string_view text) {
  std::string message;
  auto rules = parse_fault_rules(text, message);
  EXPECT_TRUE(rules.ok()) << text << ": " << message;
  return rules.ok() ? std::move(rules).value() : FaultRules{};
}

FaultRule one(std::string_view text) {
  const auto all = accepted(text);
  EXPECT_EQ(all.rules.size(), 1U) << text;
  return all.rules.empty() ? FaultRule{} : all.rules[0];
}

/// The message, which must start with the column given.
std::string refused(std::string_view text, std::size_t column) {
  std::string message;
  const auto rules = parse_fault_rules(text, message);
  EXPECT_FALSE(rules.ok()) << text;
  EXPECT_THAT(message, StartsWith("column " + std::to_string(column) + ": ")) << text;
  return message;
}

bool names(const FaultRule& rule, wire::Transport transport, wire::Operation operation) {
  return rule.opcodes[static_cast<std::size_t>(wire::opcode_of(transport, operation))];
}

TEST(FaultRules, AnEmptyTextHasNoRules) {
  for (const char* text : {"", " ", ";", " ; ;; ", "\n"}) {
    EXPECT_TRUE(accepted(text).rules.empty()) << text;
    EXPECT_EQ(accepted(text).seed, FaultRules::kDefaultSeed);
  }
}

TEST(FaultRules, TakesTheExampleOfTheDocuments) {
  const auto all = accepted(
      "seed=7; out drop 1%; in corrupt p=0.01 opcode=RC_SEND_ONLY; both delay 200us..1ms every=10");
  EXPECT_EQ(all.seed, 7U);
  EXPECT_TRUE(all.has_seed);
  EXPECT_FALSE(accepted("out drop 1%").has_seed);
  ASSERT_EQ(all.rules.size(), 3U);
  EXPECT_EQ(all.rules[0].direction, Direction::kOut);
  EXPECT_EQ(all.rules[0].action, Action::kDrop);
  EXPECT_EQ(all.rules[0].opcodes.count(), 256U);
  EXPECT_EQ(all.rules[1].direction, Direction::kIn);
  EXPECT_EQ(all.rules[1].action, Action::kCorrupt);
  EXPECT_EQ(all.rules[1].opcodes.count(), 1U);
  EXPECT_EQ(all.rules[0].chance, all.rules[1].chance);
  EXPECT_EQ(all.rules[2].direction, Direction::kBoth);
  EXPECT_EQ(all.rules[2].delay_min, microseconds(200));
  EXPECT_EQ(all.rules[2].delay_max, milliseconds(1));
  EXPECT_EQ(all.rules[2].every, 10U);
}

TEST(FaultRules, ARuleWithoutOptionsHitsEveryPacket) {
  const FaultRule rule = one("out drop");
  EXPECT_EQ(rule.chance, FaultRule::kAlways);
  EXPECT_EQ(rule.after, 0U);
  EXPECT_EQ(rule.first, ~std::uint64_t{0});
  EXPECT_EQ(rule.every, 1U);
  EXPECT_FALSE(rule.qp.has_value());
}

TEST(FaultRules, ReadsProbabilitiesInBothForms) {
  EXPECT_EQ(one("in drop 0%").chance, 0U);
  EXPECT_EQ(one("in drop 100%").chance, FaultRule::kAlways);
  EXPECT_EQ(one("in drop 50%").chance, FaultRule::kAlways / 2);
  EXPECT_EQ(one("in drop p=.5").chance, FaultRule::kAlways / 2);
  EXPECT_EQ(one("in drop p=0.").chance, 0U);
  EXPECT_EQ(one("in drop p=1").chance, FaultRule::kAlways);
  EXPECT_EQ(one("in drop 12.5%").chance, FaultRule::kAlways / 8);
  EXPECT_EQ(one("in drop 0.000000001%").chance, 1U);
}

TEST(FaultRules, ReadsCountsAndNumbers) {
  const FaultRule rule = one("both reorder after=3 first=0x10 every=5 by=64 qp=0xABCDEF");
  EXPECT_EQ(rule.after, 3U);
  EXPECT_EQ(rule.first, 16U);
  EXPECT_EQ(rule.every, 5U);
  EXPECT_EQ(rule.by, 64U);
  EXPECT_EQ(rule.qp, wire::QpNumber{0xab'cdef});
  EXPECT_EQ(accepted("seed=0xffffffffffffffff").seed, ~std::uint64_t{0});
}

TEST(FaultRules, ReadsTimes) {
  EXPECT_EQ(one("in delay 1.5ms").delay_min, microseconds(1500));
  EXPECT_EQ(one("in delay 1.5ms").delay_max, microseconds(1500));
  EXPECT_EQ(one("in delay 7ns").delay_min, Duration(7));
  EXPECT_EQ(one("in delay 0.5us").delay_min, Duration(500));
  EXPECT_EQ(one("in delay 0s..10s").delay_max, FaultRules::kDelayMax);
}

TEST(FaultRules, KnowsEveryOpcodeByItsPrintedName) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < 256; ++i) {
    const auto opcode = wire::Opcode(static_cast<std::uint8_t>(i));
    const std::string name = fault_name_of(opcode);
    EXPECT_EQ(name.empty(), !wire::describe(opcode).known());
    if (name.empty()) continue;
    ++count;
    const FaultRule rule = one("in drop opcode=" + name);
    EXPECT_EQ(rule.opcodes.count(), 1U) << name;
    EXPECT_TRUE(rule.opcodes[i]) << name;
  }
  EXPECT_GT(count, 50U);
}

TEST(FaultRules, TakesListsAndBeginningsOfOpcodes) {
  const FaultRule rule = one("in drop opcode=rc_acknowledge,UC_SEND*,CNP");
  EXPECT_TRUE(names(rule, wire::Transport::kRc, wire::Operation::kAcknowledge));
  EXPECT_TRUE(names(rule, wire::Transport::kUc, wire::Operation::kSendFirst));
  EXPECT_TRUE(names(rule, wire::Transport::kUc, wire::Operation::kSendOnlyImm));
  EXPECT_TRUE(rule.opcodes[static_cast<std::size_t>(wire::Opcode::kCnp)]);
  EXPECT_FALSE(names(rule, wire::Transport::kUc, wire::Operation::kWriteFirst));
  EXPECT_FALSE(names(rule, wire::Transport::kRc, wire::Operation::kSendFirst));
}

TEST(FaultRules, AMistakeIsNamedWithItsColumnAndWhatWouldBeRight) {
  EXPECT_THAT(refused("drop 1%", 1), AllOf(HasSubstr("'drop'"), HasSubstr("in, out or both")));
  EXPECT_THAT(refused("seed=1; out drip 1%", 13), AllOf(HasSubstr("'drip'"), HasSubstr("drop")));
  EXPECT_THAT(refused("out", 4), HasSubstr("missing"));
  EXPECT_THAT(refused("out drop 101%", 10), AllOf(HasSubstr("'101%'"), HasSubstr("100%")));
  EXPECT_THAT(refused("out drop p=1.1", 12), HasSubstr("'1.1'"));
  EXPECT_THAT(refused("out drop p=", 12), HasSubstr("no probability"));
  EXPECT_THAT(refused("out drop %", 10), HasSubstr("no probability"));
  EXPECT_THAT(refused("out drop -1%", 10), HasSubstr("no probability"));
  EXPECT_THAT(refused("out drop 1% 2%", 13), HasSubstr("already"));
  EXPECT_THAT(refused("out drop every=0", 16), HasSubstr("from 1"));
  EXPECT_THAT(refused("out drop first=x", 16), HasSubstr("'x'"));
  EXPECT_THAT(refused("out drop after=99999999999999999999", 16), HasSubstr("no count"));
  EXPECT_THAT(refused("out drop qp=0x1000000", 13), HasSubstr("0xffffff"));
  EXPECT_THAT(refused("out drop opcode=RC_SEND", 17), HasSubstr("RC_SEND_ONLY"));
  EXPECT_THAT(refused("out drop opcode=CNP,", 21), HasSubstr("''"));
  EXPECT_THAT(refused("out drop sometimes", 10), HasSubstr("'sometimes'"));
  EXPECT_THAT(refused("out drop by=2", 13), HasSubstr("reorder"));
  EXPECT_THAT(refused("out reorder by=65", 16), HasSubstr("64"));
  EXPECT_THAT(refused("out drop 5ms", 10), HasSubstr("delay only"));
  EXPECT_THAT(refused("out delay 1%", 5), HasSubstr("needs a time"));
  EXPECT_THAT(refused("out delay 11s", 11), HasSubstr("at most 10s"));
  EXPECT_THAT(refused("out delay 2ms..1ms", 11), HasSubstr("no time"));
  EXPECT_THAT(refused("out delay 5", 11), HasSubstr("no time"));
  EXPECT_THAT(refused("seed=1;seed=2", 13), HasSubstr("already"));
  EXPECT_THAT(refused("seed=", 6), HasSubstr("no seed"));
  EXPECT_THAT(refused("seed=7 out drop", 8), HasSubstr("semicolon"));
}

TEST(FaultRules, MessagesHoldNothingThatATerminalObeys) {
  const std::string message = refused("out \033[2J" + std::string(100, 'x'), 5);
  EXPECT_THAT(message, HasSubstr("'?[2Jxxx"));
  EXPECT_LT(message.size(), 160U);
}

TEST(FaultRules, HasALimit) {
  std::string text;
  for (std::size_t i = 0; i < FaultRules::kRulesMax; ++i) text += "in drop;";
  EXPECT_EQ(accepted(text).rules.size(), FaultRules::kRulesMax);
  EXPECT_THAT(refused(text + "in drop", text.size() + 1), HasSubstr("64"));
}

}  // namespace
}  // namespace verbatim::link
