// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/traffic_pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace verbatim::sim {
namespace {

using Kind = TrafficPattern::Kind;

Destinations open(const TrafficPattern& pattern, std::uint32_t hosts, std::uint64_t seed = 1) {
  std::string message;
  auto opened = Destinations::open(pattern, hosts, seed, message);
  EXPECT_TRUE(opened) << message;
  return std::move(opened).value();
}
std::string refusal_of(const TrafficPattern& pattern, std::uint32_t hosts) {
  std::string message;
  EXPECT_FALSE(Destinations::open(pattern, hosts, 1, message));
  return message;
}
std::string refusal_of(std::string_view text) {
  std::string message;
  EXPECT_FALSE(parse_traffic_pattern(text, message)) << text;
  return message;
}

TEST(TrafficPattern, IsReadAsTheUserWritesIt) {
  std::string message;
  EXPECT_EQ(*parse_traffic_pattern("shift:2", message), (TrafficPattern{Kind::kShift, 2}));
  EXPECT_EQ(parse_traffic_pattern("permutation", message)->kind, Kind::kPermutation);
  EXPECT_EQ(parse_traffic_pattern("uniform", message)->kind, Kind::kUniform);
  EXPECT_EQ(*parse_traffic_pattern("incast:15", message), (TrafficPattern{Kind::kIncast, 15}));
  EXPECT_EQ(parse_traffic_pattern("all-to-all", message)->kind, Kind::kAllToAll);
  EXPECT_EQ(parse_traffic_pattern("bit-reverse", message)->kind, Kind::kBitReverse);
}

TEST(TrafficPattern, MistakesInItAreNamed) {
  EXPECT_NE(refusal_of("storm").find("'storm' is no pattern of traffic; expected is shift:2"),
            std::string::npos);
  EXPECT_EQ(refusal_of("uniform:2"), "uniform takes no number");
  for (const char* text :
       {"shift", "shift:", "shift:0", "shift:-1", "shift:2x", "shift:9999999999"}) {
    EXPECT_EQ(refusal_of(text), "shift needs a number of hosts from 1 on, as shift:2") << text;
  }
}

TEST(Destinations, OfAShiftAreSoManyAhead) {
  auto shift = open({Kind::kShift, 2}, 6);
  EXPECT_EQ(shift.next(0), 2U);
  EXPECT_EQ(shift.next(5), 1U);
  EXPECT_EQ(open({Kind::kShift, 8}, 6).next(5), 1U);
  EXPECT_NE(refusal_of({Kind::kShift, 12}, 6).find("each would send to itself"), std::string::npos);
}

TEST(Destinations, OfAPermutationAreEachOfOneHostAndNeverItself) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    auto permutation = open({Kind::kPermutation}, 17, seed);
    std::set<std::uint32_t> reached;
    for (std::uint32_t host = 0; host < 17; ++host) {
      EXPECT_NE(permutation.next(host), host);
      EXPECT_EQ(permutation.next(host), permutation.next(host));
      reached.insert(permutation.next(host));
    }
    EXPECT_EQ(reached.size(), 17U);
  }
}

TEST(Destinations, OfUniformTrafficAreAllOthersAboutEquallyOften) {
  auto uniform = open({Kind::kUniform}, 5);
  std::vector<std::size_t> counts(5);
  for (int count = 0; count < 4000; ++count) ++counts[uniform.next(2)];
  EXPECT_EQ(counts[2], 0U);
  for (const std::uint32_t other : {0U, 1U, 3U, 4U})
    EXPECT_NEAR(static_cast<double>(counts[other]), 1000, 150);
}

TEST(Destinations, OfAnIncastAreTheFirstHost) {
  auto incast = open({Kind::kIncast, 3}, 10, 7);
  std::size_t senders = 0;
  for (std::uint32_t host = 0; host < 10; ++host) {
    if (!incast.sends(host)) continue;
    ++senders;
    EXPECT_NE(host, 0U);
    EXPECT_EQ(incast.next(host), 0U);
  }
  EXPECT_EQ(senders, 3U);
  EXPECT_NE(refusal_of({Kind::kIncast, 10}, 10).find("at most incast:9"), std::string::npos);
}

TEST(Destinations, OfAllToAllAreAllOthersInTurn) {
  auto all = open({Kind::kAllToAll}, 4);
  EXPECT_EQ(all.next(2), 3U);
  EXPECT_EQ(all.next(2), 0U);
  EXPECT_EQ(all.next(2), 1U);
  EXPECT_EQ(all.next(2), 3U);
}

TEST(Destinations, OfBitReverseAreReadFromTheOtherEnd) {
  auto reverse = open({Kind::kBitReverse}, 8);
  EXPECT_EQ(reverse.next(1), 4U);
  EXPECT_EQ(reverse.next(6), 3U);
  EXPECT_FALSE(reverse.sends(5));
  EXPECT_NE(refusal_of({Kind::kBitReverse}, 6).find("2, 4, 8"), std::string::npos);
}

TEST(Destinations, NeedTwoHosts) {
  EXPECT_EQ(refusal_of({Kind::kUniform}, 1), "traffic needs two hosts that have a LID");
}

TEST(Destinations, AreThoseOfTheSeed) {
  auto first = open({Kind::kPermutation}, 64, 3);
  auto second = open({Kind::kPermutation}, 64, 3);
  auto other = open({Kind::kPermutation}, 64, 4);
  std::size_t differences = 0;
  for (std::uint32_t host = 0; host < 64; ++host) {
    EXPECT_EQ(first.next(host), second.next(host));
    if (first.next(host) != other.next(host)) ++differences;
  }
  EXPECT_GT(differences, 0U);
}

}  // namespace
}  // namespace verbatim::sim
