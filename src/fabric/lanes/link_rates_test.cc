// SPDX-License-Identifier: Apache-2.0
// Links with rates: who waits, and for how long.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fabric/lanes/test_lanes.h"

namespace verbatim::fabric {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::at_rate;
using test::kTwoGigabits;
using test::LanesSubnet;
using test::star;
using test::tree;
using wire::PortCounter;
using Handles = std::vector<std::uint32_t>;

constexpr FabricOptions kReal{.slowdown = 1};
// 4 ns for an octet, and a packet of 249 words has 998 octets with its VCRC.
constexpr std::uint16_t kWords = 249;
constexpr Duration kPacketTime{998 * 4};

TEST(LinkRates, APacketThatFindsItsLinksIdleArrivesAtOnce) {
  LanesSubnet test(at_rate(tree("3x2"), kTwoGigabits), kReal);
  const DataPacket packet = test.packet_of("h0", "h5", 0, kWords);
  test.fabric.post_data(test.now, test.host("h0"), packet);
  EXPECT_EQ(test.arrivals(), Handles{packet.handle});
}

TEST(LinkRates, TheNextPacketWaitsUntilTheLinkHasSentThisOne) {
  LanesSubnet test(at_rate(star("2"), kTwoGigabits), kReal);
  Handles handles;
  for (int i = 0; i < 3; ++i) {
    const DataPacket packet = test.packet_of("h0", "h1", 0, kWords);
    handles.push_back(packet.handle);
    test.fabric.post_data(test.now, test.host("h0"), packet);
  }
  EXPECT_EQ(test.arrivals(), Handles{handles[0]});
  EXPECT_EQ(test.lane(test.host("h0"), 0).queued_packets, 2U);
  test.wait(kPacketTime - Duration(1));
  EXPECT_EQ(test.arrivals(), Handles{});
  test.wait(Duration(1));
  EXPECT_EQ(test.arrivals(), Handles{handles[1]});
  test.wait(kPacketTime);
  EXPECT_EQ(test.arrivals(), Handles{handles[2]});
}

TEST(LinkRates, AnOwnerThatIsLateFindsTheLinkBusyAllTheTime) {
  LanesSubnet test(at_rate(star("2"), kTwoGigabits), kReal);
  for (int i = 0; i < 11; ++i) {
    test.fabric.post_data(test.now, test.host("h0"), test.packet_of("h0", "h1", 0, kWords));
  }
  test.now = test.now + 10 * kPacketTime;
  test.fabric.advance(test.now);
  EXPECT_EQ(test.arrivals().size(), 11U);
}

TEST(LinkRates, PacketsOfOneInstantNeedNotWaitForEachOtherWithinTheGrainOfTheClock) {
  FabricOptions options = kReal;
  options.clock_grain = 4 * kPacketTime;
  LanesSubnet test(at_rate(star("2"), kTwoGigabits), options);
  test.wait(milliseconds(1));
  for (int i = 0; i < 8; ++i) {
    test.fabric.post_data(test.now, test.host("h0"), test.packet_of("h0", "h1", 0, kWords));
  }
  EXPECT_EQ(test.arrivals().size(), 5U) << "the link is ahead by four, and sends one";
  test.wait(2 * kPacketTime);
  EXPECT_EQ(test.arrivals().size(), 2U) << "in the long run it is as fast as its rate";
}

TEST(LinkRates, EachRateIsTheOneThatTheLinkHas) {
  struct Case {
    LinkRate rate;
    double gigabits;
  };
  for (const Case& each :
       {Case{{LinkWidth::k1x, LinkSpeed::kSdr}, 2}, Case{{LinkWidth::k4x, LinkSpeed::kQdr}, 32},
        Case{{LinkWidth::k4x, LinkSpeed::kFdr}, 54.5}, Case{{LinkWidth::k4x, LinkSpeed::kEdr}, 100},
        Case{{LinkWidth::k2x, LinkSpeed::kHdr}, 100},
        Case{{LinkWidth::k4x, LinkSpeed::kNdr}, 400}}) {
    LanesSubnet test(at_rate(star("2"), each.rate), kReal);
    const auto arrived = test.run({{.from = "h0", .to = "h1"}}, microseconds(500));
    const double octets = 500'000 * each.gigabits / 8;
    EXPECT_NEAR(static_cast<double>(arrived[0]) * 4'122, octets, octets / 50 + 4'122)
        << text_of(each.rate);
  }
}

TEST(LinkRates, TheSlowestLinkOfTheWayDecides) {
  Topology topology = at_rate(star("2"), {LinkWidth::k4x, LinkSpeed::kHdr});
  topology.links[1].rate = kTwoGigabits;
  LanesSubnet test(topology, kReal);
  const auto arrived = test.run({{.from = "h0", .to = "h1"}}, milliseconds(2));
  EXPECT_NEAR(static_cast<double>(arrived[0]) * 4'122, 500'000, 25'000);
}

TEST(LinkRates, AreSlowerByAWholeNumber) {
  FabricOptions options = kReal;
  options.slowdown = 50;
  LanesSubnet test(at_rate(star("2"), {LinkWidth::k4x, LinkSpeed::kEdr}), options);
  const auto arrived = test.run({{.from = "h0", .to = "h1"}}, milliseconds(2));
  EXPECT_NEAR(static_cast<double>(arrived[0]) * 4'122, 500'000, 25'000);
}

TEST(LinkRates, AFollowTheRateThatTheSubnetManagerHasChosen) {
  LanesSubnet test(at_rate(star("2"), {LinkWidth::k4x, LinkSpeed::kSdr}), kReal);
  test.change_port(test.leaf(2), [](wire::PortInfo& info) { info.width_enabled = 1; });
  test.set_state(2, wire::PortState::kDown, {1});
  for (const auto state : {wire::PortState::kArmed, wire::PortState::kActive}) {
    test.set_state(2, state, {1});
    test.set_state(1, state, {1, 2});
  }
  const auto arrived = test.run({{.from = "h0", .to = "h1"}}, milliseconds(2));
  EXPECT_NEAR(static_cast<double>(arrived[0]) * 4'122, 500'000, 25'000);
}

/// Code 16 is a path of 100 Gb/s, on links of 200.
TEST(LinkRates, APathThatIsSlowerThanItsLinksGetsNoMorePacketsThanItTakes) {
  const auto octets_of = [](const std::vector<LanesSubnet::Stream>& streams) {
    LanesSubnet test(at_rate(star("3"), {LinkWidth::k4x, LinkSpeed::kHdr}), kReal);
    std::vector<double> octets;
    for (const std::uint64_t packets : test.run(streams, microseconds(500))) {
      octets.push_back(static_cast<double>(packets) * 4'122);
    }
    return octets;
  };
  EXPECT_NEAR(octets_of({{.from = "h0", .to = "h1", .rate = 16}})[0], 6'250'000, 62'500);
  const auto both = octets_of({{.from = "h0", .to = "h1", .rate = 16}, {.from = "h0", .to = "h2"}});
  EXPECT_NEAR(both[0], 6'250'000, 200'000);
  EXPECT_NEAR(both[1], 6'250'000, 200'000) << "the rest of the link";
  EXPECT_NEAR(octets_of({{.from = "h0", .to = "h1", .rate = 17}})[0], 12'500'000, 125'000);
}

TEST(LinkRates, TwoSendersShareALink) {
  LanesSubnet test(at_rate(star("3"), kTwoGigabits), kReal);
  const auto arrived =
      test.run({{.from = "h0", .to = "h2"}, {.from = "h1", .to = "h2"}}, milliseconds(10));
  EXPECT_NEAR(static_cast<double>(arrived[0]), static_cast<double>(arrived[1]), 10);
  EXPECT_GT(test.counted(test.host("h0"), PortCounter::kTransmitWait), 100'000U)
      << "in words that the port could have sent";
  EXPECT_LT(test.counted(test.host("h0"), PortCounter::kTransmitWait), 625'000U);
}

TEST(LinkRates, ManagementTakesTimeAsWellAndGoesFirst) {
  LanesSubnet test(at_rate(star("2"), kTwoGigabits), kReal);
  for (int i = 0; i < 20; ++i) {
    test.fabric.post_data(test.now, test.host("h0"), test.packet_of("h0", "h1", 0, kWords));
  }
  const Instant before = test.now;
  ASSERT_TRUE(test.ask({.attribute = wire::SmpAttribute::kNodeInfo}, {1}));
  EXPECT_LE(test.now - before, milliseconds(200)) << "the answer came in the first or second wait";
  EXPECT_EQ(test.counted(test.leaf(1), PortCounter::kLane15Dropped), 0U);
}

TEST(LinkRates, AnAdapterSaysWhenItHasRoom) {
  LanesSubnet test(at_rate(star("2"), kTwoGigabits), kReal);
  for (int i = 0; i < 5; ++i) {
    test.fabric.post_data(test.now, test.host("h0"), test.packet_of("h0", "h1", 0, kWords));
  }
  test.fabric.await_room(test.host("h0"), 2);
  EXPECT_FALSE(test.fabric.poll_room());
  test.wait(kPacketTime);
  EXPECT_FALSE(test.fabric.poll_room());
  test.wait(kPacketTime);
  EXPECT_EQ(test.fabric.poll_room(), test.host("h0"));
  EXPECT_FALSE(test.fabric.poll_room());
  test.fabric.await_room(test.host("h1"), 0);
  EXPECT_EQ(test.fabric.poll_room(), test.host("h1")) << "at once, if it has room already";
}

}  // namespace
}  // namespace verbatim::fabric
