// SPDX-License-Identifier: Apache-2.0
#include "tools/stat_view.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace verbatim::tools {
namespace {

using direct::DataPath;
using transport::QpState;
using transport::QpType;
using Kind = host::Viewer::Sight::Kind;

QueuePairView connected(std::uint32_t number, DataPath sends, DataPath receives) {
  return {.number = wire::QpNumber{number},
          .incarnation = 1,
          .type = QpType::kRc,
          .state = QpState::kReadyToSend,
          .sends = sends,
          .receives = receives};
}

HostView host_with(std::vector<QueuePairView> queue_pairs, std::int64_t at) {
  HostView host{.at = at};
  host.processes.push_back({.slot = 3,
                            .kind = Kind::kShown,
                            .process = 4711,
                            .program = "writer",
                            .queue_pairs = std::move(queue_pairs)});
  return host;
}

std::size_t lines_with(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(PathOf, IsOneWordForBothDirections) {
  const auto path = [](DataPath sends, DataPath receives) {
    return std::string(path_of(connected(1, sends, receives)));
  };
  EXPECT_EQ(path(DataPath::kDirect, DataPath::kDirect), "direct");
  EXPECT_EQ(path(DataPath::kDirect, DataPath::kUndecided), "direct");
  EXPECT_EQ(path(DataPath::kUndecided, DataPath::kDirect), "direct");
  EXPECT_EQ(path(DataPath::kUndecided, DataPath::kUndecided), "undecided");
  EXPECT_EQ(path(DataPath::kUndecided, DataPath::kPackets), "packets");
  EXPECT_EQ(path(DataPath::kPackets, DataPath::kPackets), "packets");
  EXPECT_EQ(path(DataPath::kDirect, DataPath::kPackets), "both");
  EXPECT_EQ(path(DataPath::kPackets, DataPath::kDirect), "both");
}

TEST(PathOf, IsNothingBeforeAConnectionAndPacketsForDatagrams) {
  QueuePairView qp = connected(1, DataPath::kPackets, DataPath::kPackets);
  qp.state = QpState::kInit;
  EXPECT_STREQ(path_of(qp), "-");
  qp.type = QpType::kUd;
  EXPECT_STREQ(path_of(qp), "packets");
}

TEST(ComputeRates, AreThoseOfTheTimeBetween) {
  QueuePairView qp = connected(0x30010, DataPath::kDirect, DataPath::kDirect);
  qp.traffic = {.messages = 100, .octets = 1000, .served_messages = 7, .served_octets = 70};
  const HostView before = host_with({qp}, 1'000'000'000);
  qp.traffic = {.messages = 300, .octets = 5000, .served_messages = 8, .served_octets = 80};
  HostView now = host_with({qp}, 3'000'000'000);
  compute_rates(before, now);
  const QueuePairView& seen = now.processes[0].queue_pairs[0];
  EXPECT_DOUBLE_EQ(seen.out.messages, 100);
  EXPECT_DOUBLE_EQ(seen.out.octets, 2000);
  EXPECT_DOUBLE_EQ(seen.in.messages, 0.5);
  EXPECT_DOUBLE_EQ(seen.in.octets, 5);
}

TEST(ComputeRates, DoNotMixAQueuePairWithItsSuccessor) {
  QueuePairView qp = connected(0x30010, DataPath::kDirect, DataPath::kDirect);
  const HostView before = host_with({qp}, 0);
  qp.traffic.messages = 500;
  qp.incarnation = 2;
  HostView now = host_with({qp}, 1'000'000'000);
  compute_rates(before, now);
  EXPECT_EQ(now.processes[0].queue_pairs[0].out.messages, 0);
  now.processes[0].queue_pairs[0].incarnation = 1;
  now.processes[0].process = 4712;  // another process in the slot
  compute_rates(before, now);
  EXPECT_EQ(now.processes[0].queue_pairs[0].out.messages, 0);
}

TEST(ComputeRates, AreNothingWhereACounterHasBegunAnew) {
  QueuePairView qp = connected(0x30010, DataPath::kDirect, DataPath::kDirect);
  qp.traffic.messages = 500;
  const HostView before = host_with({qp}, 0);
  qp.traffic.messages = 20;
  HostView now = host_with({qp}, 1'000'000'000);
  compute_rates(before, now);
  EXPECT_EQ(now.processes[0].queue_pairs[0].out.messages, 0);
}

TEST(Text, ShowsTheBusiestAndAddsUpTheRest) {
  std::vector<QueuePairView> many;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    many.push_back(connected(0x30010 + i, DataPath::kDirect, DataPath::kDirect));
    many.back().out = {.messages = 1, .octets = i % 50 == 0 ? 1e6 : 1.0};
  }
  const HostView host = host_with(many, 0);
  const std::string text = text_of(host, {});
  EXPECT_EQ(lines_with(text, "\n  0x"), 20U);
  EXPECT_EQ(lines_with(text, "1.00M"), 20U);  // all of them are busy ones
  EXPECT_NE(text.find("and 980 more (980 direct): 980 messages/s, 980 octets/s"), std::string::npos)
      << text;
  EXPECT_EQ(lines_with(text_of(host, {.shows_all = true}), "\n  0x"), 1000U);
}

TEST(Text, FitsTheTerminal) {
  std::vector<QueuePairView> many(1000, connected(0x30010, DataPath::kDirect, DataPath::kDirect));
  for (const std::size_t lines : {2U, 10U, 30U}) {
    const std::string text =
        text_of(host_with(many, 0), {.in_colour = true, .shows_all = true, .lines = lines});
    EXPECT_LE(static_cast<std::size_t>(std::ranges::count(text, '\n')), lines);
    EXPECT_NE(text.find("more lines"), std::string::npos);
  }
}

TEST(Text, HasColoursOnlyWhereTheyAreWanted) {
  const HostView host = host_with({connected(0x30010, DataPath::kDirect, DataPath::kDirect)}, 0);
  EXPECT_EQ(text_of(host, {}).find('\033'), std::string::npos);
  EXPECT_NE(text_of(host, {.in_colour = true}).find('\033'), std::string::npos);
}

TEST(Text, SaysOfASilentProcessThatItIsSilent) {
  HostView host;
  host.processes.push_back({.slot = 9, .kind = Kind::kSilent, .process = 12, .program = "sleeper"});
  const std::string text = text_of(host, {});
  EXPECT_NE(text.find("pid 12"), std::string::npos);
  EXPECT_NE(text.find("does not answer"), std::string::npos);
}

}  // namespace
}  // namespace verbatim::tools
