// SPDX-License-Identifier: Apache-2.0
// Promises that hold whatever programs send over crowded lanes. A seed chooses the fabric, its
// tables and the traffic.
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "fabric/lanes/test_lanes.h"

namespace verbatim::fabric {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::at_rate;
using test::kTwoGigabits;
using test::LanesSubnet;
using test::tree;
using Kind = DataOutcome::Kind;

Topology made(Expected<Topology> topology, const std::string& message) {
  EXPECT_TRUE(topology) << message;
  return std::move(topology).value();
}
Topology ring(const std::string& switches) {
  std::string message;
  return made(ring_topology(switches, LinkRate{}, message), message);
}

std::size_t hosts_of(const Topology& topology) {
  std::size_t hosts = 0;
  for (const TopologyNode& node : topology.nodes) hosts += node.kind == NodeKind::kHost ? 1U : 0U;
  return hosts;
}

/// Slow links of different rates, so that lanes are crowded.
Topology random_topology(Prng& prng) {
  std::string message;
  Topology topology;
  switch (prng.below(4)) {
    case 0:
      topology = tree("3x3");
      break;
    case 1:
      topology = made(fat_tree_topology("3x3/2", LinkRate{}, message), message);
      break;
    case 2:
      topology = ring("5");
      break;
    default:
      topology = made(torus_topology("3x3", LinkRate{}, message), message);
  }
  for (TopologyLink& link : topology.links) {
    link.rate.width = prng.one_in(3) ? LinkWidth::k4x : LinkWidth::k1x;
    link.rate.speed = prng.one_in(3) ? LinkSpeed::kDdr : LinkSpeed::kSdr;
  }
  return topology;
}

class Traffic {
 public:
  explicit Traffic(std::uint64_t seed)
      : prng_(seed),
        options_{.seed = seed,
                 .hop_delay = prng_.one_in(2) ? Duration(300) : Duration(0),
                 .slowdown = prng_.one_in(4) ? 0U : 1U,
                 .clock_grain = prng_.one_in(2) ? Duration(2'000) : Duration(0),
                 .lane_blocks = static_cast<std::uint16_t>(prng_.between(66, 400)),
                 .holds_arrivals = prng_.one_in(2)},
        test_(random_topology(prng_), options_),
        hosts_(hosts_of(test_.fabric.topology())) {
    set_tables();
  }

  /// The whole history in one number.
  std::uint64_t run() {
    const std::size_t drops_before = test_.drops();
    for (int step = 0; step < 300; ++step) {
      for (std::uint64_t count = prng_.below(40); count > 0; --count) post();
      if (prng_.one_in(60)) disturb();
      pass(Duration(static_cast<std::int64_t>(prng_.below(40'000))));
      take_some();
      if (step % 50 == 0) check_lanes();
    }
    settle();
    EXPECT_EQ(done_, posted_) << "each packet is done once";
    EXPECT_EQ(arrived_ + test_.drops() - drops_before, posted_) << "no packet gets lost uncounted";
    EXPECT_GT(arrived_, 300U);
    check_quiet();
    return trace_;
  }

 private:
  void set_tables() {
    test_.use_all_lanes();
    send_no_traps();
    for (const TopologyLink& link : test_.fabric.topology().links) {
      for (const PortEnd end : {link.a, link.b}) {
        LanesSubnet::Tables tables{.limit = static_cast<std::uint8_t>(prng_.below(6))};
        for (unsigned lane = 0; lane < 8; ++lane) {
          const auto weight = static_cast<unsigned>(prng_.between(1, 200));
          (prng_.one_in(4) ? tables.high : tables.low).push_back({lane, weight});
        }
        test_.set_tables(end, tables);
        if (test_.fabric.topology().nodes[end.node].kind != NodeKind::kSwitch) continue;
        test_.change_port(end, [&](wire::PortInfo& info) {
          info.queue_life = static_cast<std::uint8_t>(prng_.between(6, 9));
          info.vl_stall_count = static_cast<std::uint8_t>(prng_.below(4));
        });
      }
    }
  }
  /// Their discards would be among those of packets.
  void send_no_traps() {
    const auto& nodes = test_.fabric.topology().nodes;
    for (std::uint32_t node = 0; node < nodes.size(); ++node) {
      const bool is_switch = nodes[node].kind == NodeKind::kSwitch;
      test_.change_port({.node = node, .port = is_switch ? std::uint8_t{0} : std::uint8_t{1}},
                        [](wire::PortInfo& info) { info.sm_lid = wire::Lid::kReserved; });
    }
  }
  void post() {
    const std::string from = "h" + std::to_string(prng_.below(hosts_));
    const std::string to = "h" + std::to_string(prng_.below(prng_.one_in(3) ? 2 : hosts_));
    const auto words = static_cast<std::uint16_t>(prng_.one_in(2) ? 1030 : prng_.between(7, 1050));
    DataPacket packet = test_.packet_of(from, to, static_cast<unsigned>(prng_.below(8)), words);
    if (prng_.one_in(10)) packet.rate = static_cast<std::uint8_t>(prng_.between(2, 7));
    ++posted_;
    test_.fabric.post_data(test_.now, test_.host(from), packet);
    drain();
  }
  void disturb() {
    const auto& links = test_.fabric.topology().links;
    const PortEnd end = links[prng_.below(links.size())].a;
    if (prng_.one_in(2)) {
      (void)test_.fabric.set_link_loss(end, prng_.one_in(2) ? 300 : 0);
    } else {
      (void)test_.fabric.set_cable(test_.now, end, !test_.fabric.has_cable(end));
    }
  }
  void drain() {
    while (const auto outcome = test_.fabric.poll_data()) {
      trace_ =
          (trace_ ^ outcome->handle ^ static_cast<std::uint64_t>(test_.now.since_start().count())) *
          0x9e37'79b9'7f4a'7c15U;
      if (outcome->kind == Kind::kDone) {
        ++done_;
      } else {
        ++arrived_;
        held_.push_back(*outcome);
      }
    }
  }
  void pass(Duration time) {
    const Instant end = test_.now + time;
    while (test_.fabric.next_due() && *test_.fabric.next_due() <= end) {
      test_.now = std::max(test_.now, *test_.fabric.next_due());
      test_.fabric.advance(test_.now);
      drain();
    }
    test_.now = end;
  }
  void take_some() {
    for (std::uint64_t count = prng_.below(60); count > 0 && !held_.empty(); --count) {
      const DataOutcome outcome = held_.front();
      held_.pop_front();
      test_.fabric.take_arrival(test_.now, outcome);
      drain();
    }
  }
  void settle() {
    for (int round = 0; done_ < posted_ && round < 10'000; ++round) {
      pass(microseconds(100));
      take_some();
    }
    while (!held_.empty()) take_some();
    for (const TopologyLink& link : test_.fabric.topology().links) {
      (void)test_.fabric.set_link_loss(link.a, 0);
    }
    pass(milliseconds(100));
  }
  template <typename Visit>
  void for_each_lane(Visit&& visit) const {
    for (const TopologyLink& link : test_.fabric.topology().links) {
      for (const PortEnd end : {link.a, link.b}) {
        for (unsigned lane = 0; lane < 8; ++lane) visit(end, lane, test_.lane(end, lane));
      }
    }
  }
  void check_lanes() const {
    std::uint32_t queued = 0;
    for_each_lane([&](PortEnd, unsigned, const LaneState& state) {
      EXPECT_LE(state.credits, options_.lane_blocks) << "credits are never below zero";
      EXPECT_LE(state.buffered_blocks, options_.lane_blocks);
      queued += state.queued_packets;
    });
    std::uint32_t waiting = 0;
    for (const LaneWait& each : test_.fabric.waiting_lanes()) waiting += each.packets;
    EXPECT_GE(waiting, queued);
  }
  void check_quiet() const {
    for_each_lane([&](PortEnd end, unsigned lane, const LaneState& state) {
      EXPECT_EQ(state.queued_packets, 0U);
      EXPECT_EQ(state.queued_blocks, 0U);
      EXPECT_EQ(state.buffered_blocks, 0U) << end.node << " " << lane;
      EXPECT_EQ(state.credits, options_.lane_blocks) << "all credits are back";
    });
    EXPECT_TRUE(test_.fabric.waiting_lanes().empty());
  }

  Prng prng_;
  FabricOptions options_;
  LanesSubnet test_;
  std::size_t hosts_;
  std::deque<DataOutcome> held_{};
  std::size_t posted_ = 0;
  std::size_t done_ = 0;
  std::size_t arrived_ = 0;
  std::uint64_t trace_ = 0;
};

TEST(LaneTraffic, NoPacketGetsLostUncountedAndAllCreditsComeBack) {
  for (std::uint64_t seed = 1; seed <= 25 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    (void)Traffic(seed).run();
  }
}

TEST(LaneTraffic, OneSeedIsOneHistory) {
  for (const std::uint64_t seed : {3U, 8U}) {
    EXPECT_EQ(Traffic(seed).run(), Traffic(seed).run());
    EXPECT_NE(Traffic(seed).run(), Traffic(seed + 100).run());
  }
}

/// How many packets of all streams arrive while `first` passes, and then in the same time again.
std::pair<std::uint64_t, std::uint64_t> progress(LanesSubnet& test,
                                                 const std::vector<LanesSubnet::Stream>& streams,
                                                 Duration time) {
  const auto sum = [&] {
    std::uint64_t total = 0;
    for (const std::uint64_t each : test.run(streams, time)) total += each;
    return total;
  };
  const std::uint64_t first = sum();
  return {first, sum()};
}

void never_discard(LanesSubnet& test) {
  for (const TopologyLink& link : test.fabric.topology().links) {
    for (const PortEnd end : {link.a, link.b}) {
      test.change_port(end, [](wire::PortInfo& info) { info.queue_life = 31; });
    }
  }
  for (std::uint32_t node = 0; node < test.fabric.topology().nodes.size(); ++node) {
    if (test.fabric.topology().nodes[node].kind != NodeKind::kSwitch) continue;
    test.set(wire::SmpAttribute::kSwitchInfo, 0,
             wire::SwitchInfo{.linear_top = 63, .life_time = 31}, test.path_of(node));
  }
}

TEST(LaneTraffic, ShortestWaysOnARingDeadlock) {
  LanesSubnet test(at_rate(ring("6"), kTwoGigabits), {.slowdown = 1});
  never_discard(test);
  std::vector<LanesSubnet::Stream> streams;
  for (int host = 0; host < 6; ++host) {
    streams.push_back(
        {.from = "h" + std::to_string(host), .to = "h" + std::to_string((host + 2) % 6)});
  }
  const auto [first, second] = progress(test, streams, milliseconds(20));
  EXPECT_GT(first, 0U);
  EXPECT_EQ(second, 0U);
  EXPECT_EQ(test.drops(), 0U);
  std::size_t without_credits = 0;
  for (const LaneWait& each : test.fabric.waiting_lanes()) {
    if (each.buffer) ++without_credits;
  }
  EXPECT_GE(without_credits, 6U);
}

TEST(LaneTraffic, LifetimesEndADeadlock) {
  LanesSubnet test(at_rate(ring("6"), kTwoGigabits), {.slowdown = 1});
  for (const TopologyLink& link : test.fabric.topology().links) {
    for (const PortEnd end : {link.a, link.b}) {
      test.change_port(end, [](wire::PortInfo& info) { info.queue_life = 7; });
    }
  }
  std::vector<LanesSubnet::Stream> streams;
  for (int host = 0; host < 6; ++host) {
    streams.push_back(
        {.from = "h" + std::to_string(host), .to = "h" + std::to_string((host + 2) % 6)});
  }
  const auto [first, second] = progress(test, streams, milliseconds(20));
  EXPECT_GT(second, 0U);
  EXPECT_GT(test.fabric.drop_count(DropReason::kQueueLife), 0U);
}

TEST(LaneTraffic, NothingOnATreeDeadlocks) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Prng prng(seed);
    LanesSubnet test(at_rate(tree("4x3"), kTwoGigabits), {.slowdown = 1, .lane_blocks = 66});
    never_discard(test);
    std::vector<LanesSubnet::Stream> streams;
    for (int host = 0; host < 12; ++host) {
      for (int i = 0; i < 2; ++i) {
        const std::uint64_t other = (static_cast<unsigned>(host) + prng.between(1, 11)) % 12;
        streams.push_back({.from = "h" + std::to_string(host), .to = "h" + std::to_string(other)});
      }
    }
    for (const std::uint64_t each : test.run(streams, milliseconds(10))) EXPECT_GT(each, 0U);
    for (const std::uint64_t each : test.run(streams, milliseconds(10))) EXPECT_GT(each, 0U);
    EXPECT_EQ(test.drops(), 0U);
  }
}

}  // namespace
}  // namespace verbatim::fabric
