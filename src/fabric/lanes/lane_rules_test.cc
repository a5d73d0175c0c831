// SPDX-License-Identifier: Apache-2.0
// Lanes of a whole subnet: which one a packet takes, what it gets of a link, and when it waits for
// credits.
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
using Kind = DataOutcome::Kind;

constexpr FabricOptions kReal{.slowdown = 1};

DropReason reason_of(LanesSubnet& test, unsigned level) {
  return test.discarded(test.host("h0"), test.packet_of("h0", "h1", level)).reason;
}

TEST(LaneRules, ThePortsInAndOutAndTheServiceLevelChooseTheLane) {
  FabricOptions options;
  options.holds_arrivals = true;
  LanesSubnet test(star("2"), options);
  test.use_all_lanes();
  for (unsigned level = 0; level < 8; ++level) {
    test.fabric.post_data(test.now, test.host("h0"), test.packet_of("h0", "h1", level));
    const auto outcome = test.fabric.poll_data();
    ASSERT_TRUE(outcome);
    EXPECT_EQ(static_cast<unsigned>(outcome->lane), level);
    EXPECT_EQ(outcome->blocks, blocks_of(LanesSubnet::kWords));
    EXPECT_EQ(test.lane(test.host("h1"), level).buffered_blocks, outcome->blocks);
    test.fabric.take_arrival(test.now, *outcome);
    EXPECT_EQ(test.lane(test.host("h1"), level).buffered_blocks, 0U);
    EXPECT_TRUE(test.fabric.poll_data());
  }
}

TEST(LaneRules, Lane15InTheTableDiscards) {
  LanesSubnet test(star("2"));
  test.set_lanes(test.leaf(2), {0, 15, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(test.deliver(test.host("h0"), test.packet_of("h0", "h1", 0)).size(), 1U);
  EXPECT_EQ(reason_of(test, 1), DropReason::kNoLane);
  EXPECT_EQ(reason_of(test, 2), DropReason::kNoLane) << "there are eight lanes";
  EXPECT_EQ(test.counted(test.leaf(1), PortCounter::kLaneMappingErrors), 2U);
  EXPECT_EQ(test.counted(test.leaf(1), PortCounter::kSwitchRelayErrors), 2U);
  test.set_lanes(test.host("h0"), {15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(reason_of(test, 0), DropReason::kNoLane);
  EXPECT_EQ(test.counted(test.host("h0"), PortCounter::kTransmitDiscards), 1U);
}

TEST(LaneRules, ALaneThatIsNotInUseDiscards) {
  LanesSubnet test(star("2"));
  test.use_all_lanes();
  test.change_port(test.leaf(2), [](wire::PortInfo& info) { info.operational_vls = 2; });
  EXPECT_EQ(test.deliver(test.host("h0"), test.packet_of("h0", "h1", 1)).size(), 1U);
  EXPECT_EQ(reason_of(test, 2), DropReason::kNoLane);
}

/// 3:1, whichever table says so.
TEST(LaneRules, ArbitrationSharesALinkByWeights) {
  for (const LanesSubnet::Tables& tables :
       {LanesSubnet::Tables{.low = {{0, 64}, {1, 192}}},
        LanesSubnet::Tables{.high = {{0, 64}, {1, 192}}, .limit = 255},
        LanesSubnet::Tables{.high = {{1, 192}}, .low = {{0, 64}}, .limit = 3}}) {
    LanesSubnet test(at_rate(tree("2x2"), kTwoGigabits), kReal);
    test.use_all_lanes();
    const PortEnd link = test.port_to("leaf0", "leaf1");
    for (const std::string_view host : {"h2", "h3"})
      test.set_route("leaf0", test.lid(host), link.port);
    test.set_tables(link, tables);
    const auto arrived =
        test.run({{.from = "h0", .to = "h2", .level = 0}, {.from = "h1", .to = "h3", .level = 1}},
                 milliseconds(20));
    const double ratio = static_cast<double>(arrived[1]) / static_cast<double>(arrived[0]);
    EXPECT_NEAR(ratio, 3.0, 0.3) << arrived[0] << " and " << arrived[1];
    EXPECT_NEAR(static_cast<double>(arrived[0] + arrived[1]) * 4'122, 5e6, 1e5)
        << "all of the link";
  }
}

TEST(LaneRules, ALaneThatNoTableServesWaits) {
  LanesSubnet test(star("2"), kReal);
  test.use_all_lanes();
  test.set_tables(test.host("h0"), {.low = {{0, 1}}});
  test.fabric.post_data(test.now, test.host("h0"), test.packet_of("h0", "h1", 1));
  test.wait(milliseconds(10));
  EXPECT_TRUE(test.arrivals().empty());
  test.fabric.post_data(test.now, test.host("h0"), test.packet_of("h0", "h1", 0));
  test.wait(milliseconds(1));
  EXPECT_EQ(test.arrivals().size(), 1U);
  test.set_tables(test.host("h0"), {.low = {{0, 1}, {1, 1}}});
  test.wait(milliseconds(1));
  EXPECT_EQ(test.arrivals().size(), 1U) << "until the subnet manager has written another table";
}

/// The receive buffer of 256 blocks has room for three packets of 65.
class SlowReceiver : public testing::Test {
 protected:
  SlowReceiver() : test_(star("3"), {.lane_blocks = 256, .holds_arrivals = true}) {
    test_.use_all_lanes();
  }
  void post(unsigned level, int packets) {
    for (int i = 0; i < packets; ++i) {
      test_.fabric.post_data(test_.now, test_.host("h0"), test_.packet_of("h0", "h1", level, 1030));
    }
  }
  std::vector<DataOutcome> arrived() {
    std::vector<DataOutcome> all;
    while (const auto outcome = test_.fabric.poll_data()) {
      outcome->kind == Kind::kArrived ? all.push_back(*outcome) : void(++done_);
    }
    return all;
  }
  LanesSubnet test_;
  std::size_t done_ = 0;
};

TEST_F(SlowReceiver, GetsNothingMoreWhileItsBufferIsFull) {
  post(0, 12);
  const auto first = arrived();
  EXPECT_EQ(first.size(), 3U);
  EXPECT_EQ(done_, 3U);
  EXPECT_EQ(test_.lane(test_.leaf(2), 0).queued_packets, 3U) << "in the switch";
  EXPECT_EQ(test_.lane(test_.host("h0"), 0).queued_packets, 6U) << "in the adapter";
  EXPECT_EQ(test_.lane(test_.leaf(2), 0).credits, 256U - 3 * 65);
  test_.fabric.take_arrival(test_.now, first[0]);
  EXPECT_EQ(arrived().size(), 1U);
  EXPECT_EQ(test_.lane(test_.host("h0"), 0).queued_packets, 5U);
}

TEST_F(SlowReceiver, StopsOnlyItsLane) {
  post(0, 12);
  EXPECT_EQ(arrived().size(), 3U);
  post(1, 1);
  EXPECT_EQ(arrived().size(), 1U);
  EXPECT_TRUE(test_.ask({.attribute = wire::SmpAttribute::kNodeInfo}, {1, 2}));
}

TEST_F(SlowReceiver, CountsTheTimeInWhichPacketsWaited) {
  FabricOptions options{.slowdown = 1};
  options.holds_arrivals = true;
  LanesSubnet test(at_rate(star("2"), kTwoGigabits), options);
  for (int i = 0; i < 4; ++i) {
    test.fabric.post_data(test.now, test.host("h0"), test.packet_of("h0", "h1", 0, 1030));
  }
  test.wait(milliseconds(2));
  test.fabric.advance(test.now);
  const std::uint64_t waited = test.counted(test.leaf(2), PortCounter::kTransmitWait);
  EXPECT_GT(waited, 100'000U);
  EXPECT_LT(waited, 125'000U) << "2 ms are 125,000 words at this rate";
  EXPECT_EQ(test.counted(test.host("h0"), PortCounter::kTransmitWait), 0U);
}

TEST_F(SlowReceiver, SaysWhatWaitsForWhat) {
  post(0, 12);
  const auto waits = test_.fabric.waiting_lanes();
  ASSERT_EQ(waits.size(), 2U);
  const LaneWait& in_switch = waits[waits[0].out.port == test_.leaf(2) ? 0 : 1];
  const LaneWait& in_adapter = waits[waits[0].out.port == test_.leaf(2) ? 1 : 0];
  EXPECT_EQ(in_switch.packets, 3U);
  EXPECT_EQ(in_switch.buffer, (LaneEnd{test_.host("h1"), {}}));
  EXPECT_EQ(in_switch.sources, (std::vector<LaneEnd>{{test_.leaf(1), {}}}));
  EXPECT_EQ(in_adapter.out, (LaneEnd{test_.host("h0"), {}}));
  EXPECT_EQ(in_adapter.buffer, (LaneEnd{test_.leaf(1), {}}));
  EXPECT_TRUE(in_adapter.sources.empty());
}

TEST_F(SlowReceiver, PacketsOfAGroupShareTheRoomThatTheyTake) {
  test_.set_group("leaf0", {1, 2, 3});
  const auto hold_all = [&](std::size_t packets) {
    for (std::size_t i = 0; i < packets; ++i) {
      DataPacket packet = test_.packet("h0", LanesSubnet::kGroup);
      packet.words = 1030;
      test_.fabric.post_data(test_.now, test_.host("h0"), packet);
    }
  };
  hold_all(5);
  const auto held = arrived();
  EXPECT_EQ(held.size(), 5U + 2 * 3) << "at h0 itself, and until two buffers were full";
  EXPECT_EQ(test_.lane(test_.leaf(1), 0).buffered_blocks, 2U * 65) << "each once";
  const auto take_at = [&](std::string_view host) {
    for (const DataOutcome& each : held) {
      if (each.port == test_.host(host)) test_.fabric.take_arrival(test_.now, each);
    }
  };
  take_at("h1");
  EXPECT_EQ(test_.lane(test_.leaf(1), 0).buffered_blocks, 2U * 65) << "h2 has not got them";
  take_at("h2");
  EXPECT_EQ(test_.lane(test_.leaf(1), 0).buffered_blocks, 0U);
  EXPECT_EQ(arrived().size(), 4U);
  EXPECT_EQ(done_, 5U);
}

TEST_F(SlowReceiver, ALinkThatGoesDownDiscardsWhatWaitsForIt) {
  post(0, 12);
  EXPECT_EQ(arrived().size(), 3U);
  test_.fabric.set_cable(test_.now, test_.leaf(2), false);
  test_.wait(milliseconds(1));
  (void)arrived();
  EXPECT_EQ(done_, 12U);
  EXPECT_EQ(test_.fabric.drop_count(DropReason::kPortDown), 9U);
  EXPECT_EQ(test_.counted(test_.leaf(2), PortCounter::kTransmitDiscards), 9U);
  EXPECT_EQ(test_.lane(test_.host("h0"), 0).credits, 256U) << "all credits are back";
  EXPECT_TRUE(test_.fabric.waiting_lanes().empty());
}

}  // namespace
}  // namespace verbatim::fabric
