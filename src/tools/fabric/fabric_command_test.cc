// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbatim::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Verb = FabricCommand::Verb;
using View = FabricCommand::View;

FabricCommand parse(std::string_view line) {
  std::string message;
  auto command = parse_fabric_command(line, message);
  EXPECT_TRUE(command.ok()) << line << ": " << message;
  return command.ok() ? *command : FabricCommand{};
}

std::string refusal_of(std::string_view line) {
  std::string message;
  return parse_fabric_command(line, message).ok() ? "accepted" : message;
}

TEST(FabricCommand, ALinkIsNamedByAPort) {
  const FabricCommand command = parse("link down leaf0[3]");
  EXPECT_EQ(command.verb, Verb::kLinkDown);
  EXPECT_THAT(command.names, ElementsAre("leaf0[3]"));
  EXPECT_EQ(parse(" link\tup  h0 \r\n").verb, Verb::kLinkUp);
}

TEST(FabricCommand, QuotesKeepBlanksTogether) {
  EXPECT_THAT(parse("link up \"h1 mlx5_0\"[2]").names, ElementsAre("h1 mlx5_0[2]"));
  EXPECT_THAT(parse("node off \"a \\\"b\\\"\"").names, ElementsAre("a \"b\""));
  EXPECT_EQ(refusal_of("node off \"h0"), "a quote is not closed");
}

TEST(FabricCommand, WordsAreReadBackFromTheirLine) {
  const std::vector<std::string> words{"node", "describe", "h0", "a \"b\" \\ c"};
  EXPECT_THAT(parse(line_of(words)).names, ElementsAre("h0", "a \"b\" \\ c"));
}

TEST(FabricCommand, LossIsOfOneLinkOrOfAll) {
  const FabricCommand all = parse("loss 10%");
  EXPECT_EQ(all.verb, Verb::kLoss);
  EXPECT_EQ(all.per_mille, 100U);
  EXPECT_THAT(all.names, IsEmpty());
  const FabricCommand one = parse("link loss leaf0[1] 0.5");
  EXPECT_EQ(one.per_mille, 5U);
  EXPECT_THAT(one.names, ElementsAre("leaf0[1]"));
  EXPECT_EQ(refusal_of("loss much"), "'much' is not a share in per cent, as 10 or 0.5%");
}

TEST(FabricCommand, TheRulesOfALinkMayBeOneWordOrSeveral) {
  const FabricCommand quoted = parse("link faults leaf0[3] \"out drop 1%; in corrupt\"");
  EXPECT_EQ(quoted.verb, Verb::kLinkFaults);
  EXPECT_THAT(quoted.names, ElementsAre("leaf0[3]"));
  EXPECT_EQ(quoted.rules, "out drop 1%; in corrupt");
  EXPECT_EQ(parse("link faults leaf0[3] out drop 1%;  in corrupt").rules, quoted.rules);
  EXPECT_EQ(refusal_of("link faults leaf0[3]"), "expected is: link faults PORT RULES|none");
}

TEST(FabricCommand, ACaptureHasAPortAFileAndLimits) {
  const FabricCommand command = parse("capture leaf0[3] run.pcapng");
  EXPECT_EQ(command.verb, Verb::kCapture);
  EXPECT_THAT(command.names, ElementsAre("leaf0[3]"));
  EXPECT_EQ(command.file, "run.pcapng");
  EXPECT_EQ(command.limits.packets, 0U);
  EXPECT_EQ(command.limits.time, Duration(0));
  EXPECT_FALSE(command.waits);
  const FabricCommand limited = parse("capture --for 0.5 h0 --count 1000 a.pcapng --wait");
  EXPECT_THAT(limited.names, ElementsAre("h0"));
  EXPECT_EQ(limited.file, "a.pcapng");
  EXPECT_EQ(limited.limits.packets, 1000U);
  EXPECT_EQ(limited.limits.time, std::chrono::milliseconds(500));
  EXPECT_TRUE(limited.waits);
  EXPECT_EQ(parse("capture stop h0").verb, Verb::kCaptureStop);
}

TEST(FabricCommand, AMistakeInACaptureIsNamed) {
  EXPECT_EQ(refusal_of("capture h0"), "expected is: capture PORT FILE [--for SECONDS] [--count N]");
  EXPECT_EQ(refusal_of("capture h0 --for 10"),
            "expected is: capture PORT FILE [--for SECONDS] [--count N]");
  for (const char* const time : {"ten", "0", "-1", "1s", "99999999"}) {
    EXPECT_THAT(refusal_of("capture h0 a --for " + std::string(time)),
                HasSubstr("is not a time in seconds, as --for 10"));
  }
  EXPECT_EQ(refusal_of("capture h0 a --count 0"),
            "'0' is not a number of packets, as --count 1000");
  EXPECT_THAT(refusal_of("capture h0 a --count"), HasSubstr("is not a number of packets"));
}

TEST(FabricCommand, SharesAreInPerCentWithOneFraction) {
  EXPECT_EQ(*parse_per_mille("0"), 0U);
  EXPECT_EQ(*parse_per_mille("100%"), 1000U);
  EXPECT_EQ(*parse_per_mille("2.5%"), 25U);
  for (const char* text : {"", "%", ".5", "100.1", "101", "1.25", "-1", "1 0", "1%%", "9999"}) {
    EXPECT_FALSE(parse_per_mille(text).ok()) << text;
  }
}

TEST(FabricCommand, ErrorsOfLinksHaveAKindAndACount) {
  const FabricCommand command = parse("link error leaf0[3] symbol 12");
  EXPECT_EQ(command.verb, Verb::kLinkError);
  EXPECT_EQ(command.error, fabric::LinkError::kSymbol);
  EXPECT_EQ(command.count, 12U);
  EXPECT_THAT(command.names, ElementsAre("leaf0[3]"));
  EXPECT_EQ(parse("link error h0 watchdog").count, 1U);
  EXPECT_THAT(refusal_of("link error h0 flu"), HasSubstr("'flu' is no error of a link: symbol,"));
  EXPECT_EQ(refusal_of("link error h0 symbol 0"), "'0' is not a count from 1 to 65535");
}

TEST(FabricCommand, ViewsAreForPeopleOrForMachines) {
  EXPECT_EQ(parse("show").view, View::kSummary);
  EXPECT_EQ(parse("show nodes").view, View::kNodes);
  EXPECT_FALSE(parse("show nodes").json);
  EXPECT_TRUE(parse("show --json drops").json);
  EXPECT_EQ(parse("show --json drops").view, View::kDrops);
  EXPECT_EQ(parse("show deadlock").view, View::kDeadlock);
  EXPECT_THAT(parse("show ports leaf0").names, ElementsAre("leaf0"));
  EXPECT_THAT(parse("show route h0 h3").names, ElementsAre("h0", "h3"));
}

TEST(FabricCommand, AnEmptyLineAsksForHelp) {
  EXPECT_EQ(parse("").verb, Verb::kHelp);
  EXPECT_EQ(parse("?").verb, Verb::kHelp);
  EXPECT_THAT(fabric_command_help(), HasSubstr("link down PORT"));
}

TEST(FabricCommand, AMistakeIsRefusedWithWhatIsExpected) {
  EXPECT_EQ(refusal_of("jump"), "'jump' is no command; `help` lists them");
  EXPECT_EQ(refusal_of("link down"), "expected is: link down PORT");
  EXPECT_EQ(refusal_of("node off a b"), "expected is: node off NODE");
  EXPECT_EQ(refusal_of("switch"), "expected is one of: switch off NODE, switch on NODE");
  EXPECT_THAT(refusal_of("show stars"), HasSubstr("'stars' cannot be shown; expected is one of: "));
  EXPECT_EQ(refusal_of("quit --json"), "--json is for `show` only");
  EXPECT_EQ(refusal_of("\x01"), "'?' is no command; `help` lists them");
}

}  // namespace
}  // namespace verbatim::tools
