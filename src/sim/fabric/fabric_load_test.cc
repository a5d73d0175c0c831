// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/fabric_load.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "fabric/lanes/deadlock_finder.h"
#include "fabric/routing/credit_loops.h"
#include "fabric/routing/plan_routes.h"
#include "fabric/routing/set_up_subnet.h"
#include "fabric/routing/test_routing.h"

namespace verbatim::sim {
namespace {

using fabric::DropReason;
using fabric::Routing;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using Kind = TrafficPattern::Kind;

constexpr std::uint8_t kForEver = 31;
constexpr fabric::SubnetSettings kNoAge{
    .queue_life = kForEver, .queue_life_to_host = kForEver, .switch_life = kForEver};

struct Trial {
  std::string shape = "ring:6";
  Routing routing = Routing::kMinHop;
  fabric::SubnetSettings settings = kNoAge;
  FabricLoad load{};
};

struct Outcome {
  LoadResult result{};
  fabric::CreditLoops possible{};
};

Outcome outcome_of(const Trial& run) {
  const fabric::Topology topology = fabric::test::shaped(run.shape);
  const fabric::SubnetPlan plan = fabric::test::planned(topology, run.routing);
  fabric::Fabric fabric(
      topology, {.seed = run.load.seed, .hop_delay = std::chrono::nanoseconds(150), .slowdown = 1});
  std::string message;
  EXPECT_TRUE(fabric::set_up_subnet(fabric, Instant{}, plan, run.settings, message)) << message;
  auto result = run_load(fabric, run.load, message);
  EXPECT_TRUE(result) << message;
  return {std::move(*result),
          fabric::find_credit_loops(fabric::Wiring(topology), plan, run.load.level)};
}

std::uint64_t drops_for(const LoadResult& result, DropReason reason) {
  return result.drops[static_cast<std::size_t>(reason)];
}

Trial shift_by_two(std::uint64_t seed) {
  return {.load = {.pattern = {Kind::kShift, 2}, .duration = microseconds(200), .seed = seed}};
}

TEST(FabricLoad, ARingOfShortestWaysDeadlocksInTheLoopThatItsTablesHave) {
  const Outcome outcome = outcome_of(shift_by_two(42));
  ASSERT_TRUE(outcome.result.deadlock);
  ASSERT_EQ(outcome.possible.loops.size(), 2U);
  EXPECT_EQ(outcome.result.deadlock->deadlock.cycle, outcome.possible.loops[0]);
  EXPECT_TRUE(outcome.result.deadlock->lasts);
  EXPECT_LE(outcome.result.deadlock->deadlock.since, outcome.result.deadlock->found);
  EXPECT_EQ(outcome.result.dropped_packets, 0U);
  EXPECT_EQ(outcome.result.deadlock->deadlock.packets, outcome.result.under_way());
}

TEST(FabricLoad, TheSameSeedGivesTheSameDeadlock) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const LoadResult first = outcome_of(shift_by_two(seed)).result;
    const LoadResult second = outcome_of(shift_by_two(seed)).result;
    ASSERT_TRUE(first.deadlock && second.deadlock);
    EXPECT_EQ(first.deadlock->deadlock, second.deadlock->deadlock);
    EXPECT_EQ(first.trace, second.trace);
    EXPECT_EQ(first.posted_packets, second.posted_packets);
  }
  EXPECT_NE(outcome_of(shift_by_two(1)).result.deadlock->deadlock.since,
            outcome_of(shift_by_two(2)).result.deadlock->deadlock.since);
}

TEST(FabricLoad, PacketsThatAreDiscardedForTheirAgeLetTheOthersCrawlOn) {
  Trial run = shift_by_two(42);
  run.settings = {.queue_life = 4, .queue_life_to_host = 4};  // 66 us
  run.load.duration = milliseconds(3);
  run.load.message_octets = 4096;
  const LoadResult crawling = outcome_of(run).result;
  ASSERT_TRUE(crawling.deadlock);
  EXPECT_FALSE(crawling.deadlock->lasts);
  EXPECT_GT(drops_for(crawling, DropReason::kQueueLife), 100U);
  run.load.duration = microseconds(300);
  const LoadResult before = outcome_of(run).result;
  EXPECT_GT(crawling.delivered_packets, before.delivered_packets + 100);
}

TEST(FabricLoad, ARingOfWaysUpAndDownCarriesOn) {
  Trial run = shift_by_two(42);
  run.routing = Routing::kUpDown;
  run.load.message_octets = 4096;
  const LoadResult result = outcome_of(run).result;
  EXPECT_FALSE(result.deadlock);
  EXPECT_EQ(result.dropped_packets, 0U);
  for (const HostTraffic& host : result.hosts) EXPECT_GT(host.delivered_octets, 100'000U);
}

TEST(FabricLoad, OneFlowHasTheRateOfItsLink) {
  Trial run{.shape = "tree:1x2",
            .load = {.pattern = {Kind::kIncast, 1}, .duration = milliseconds(1)}};
  const LoadResult result = outcome_of(run).result;
  // 100 Gb/s are 12.5 octets in a nanosecond, of which 4,096 of 4,122 are payload.
  const double expected = 12'500'000.0 * 4096 / 4122;
  EXPECT_NEAR(static_cast<double>(result.hosts[1].delivered_octets), expected, expected / 100);
  run.load.load_percent = 25;
  EXPECT_NEAR(static_cast<double>(outcome_of(run).result.hosts[1].delivered_octets), expected / 4,
              expected / 100);
}

TEST(FabricLoad, AnIncastSharesTheLinkOfItsReceiver) {
  const LoadResult result =
      outcome_of({.shape = "tree:1x5",
                  .load = {.pattern = {Kind::kIncast, 4}, .duration = milliseconds(1)}})
          .result;
  EXPECT_NEAR(static_cast<double>(result.hosts[0].received_octets), 12'420'000, 200'000);
  for (const HostTraffic& host : result.hosts) {
    if (!host.sends) continue;
    EXPECT_NEAR(static_cast<double>(host.delivered_octets), 3'105'000, 400'000);
  }
}

/// A message of one packet over two links: 150 ns each, the time of its first octet.
TEST(FabricLoad, ALonelyMessageTakesTheTimeOfItsLinks) {
  const LoadResult result = outcome_of({.shape = "tree:1x2",
                                        .load = {.pattern = {Kind::kIncast, 1},
                                                 .message_octets = 64,
                                                 .load_percent = 1,
                                                 .duration = microseconds(100)}})
                                .result;
  EXPECT_GT(result.delivered_messages, 10U);
  EXPECT_EQ(result.latencies.per_mille(1), result.latencies.per_mille(1000));
  EXPECT_NEAR(static_cast<double>(result.latencies.per_mille(500).count()), 300, 5);
}

TEST(FabricLoad, RefusesAPatternThatDoesNotFit) {
  fabric::Fabric fabric(fabric::test::shaped("tree:2x2"));
  std::string message;
  EXPECT_FALSE(run_load(fabric, {}, message));
  EXPECT_EQ(message, "traffic needs two hosts that have a LID");
}

/// Any load on any of these fabrics: each packet is delivered, dropped with a reason or under way,
/// and only where the tables have a loop is there a deadlock, which is one of lanes of a loop.
TEST(FabricLoad, KeepsItsPromisesForManySeeds) {
  const std::vector<std::string> shapes{"ring:5", "ring:7", "fat-tree:4x4/2", "torus:3x3",
                                        "tree:3x4"};
  std::size_t deadlocks = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    Trial run{.shape = shapes[prng.below(shapes.size())]};
    run.routing = prng.one_in(3) ? Routing::kUpDown : Routing::kMinHop;
    if (prng.one_in(3)) run.settings = {.queue_life = 3, .queue_life_to_host = 2};
    const std::vector<TrafficPattern> patterns{{Kind::kShift, 1},       {Kind::kShift, 2},
                                               {Kind::kPermutation, 1}, {Kind::kUniform, 1},
                                               {Kind::kIncast, 3},      {Kind::kAllToAll, 1}};
    run.load = {
        .pattern = patterns[prng.below(patterns.size())],
        .message_octets = static_cast<std::uint32_t>(prng.between(1, 60'000)),
        .load_percent = prng.one_in(3) ? static_cast<std::uint32_t>(prng.between(1, 99)) : 100U,
        .duration = microseconds(100),
        .level = wire::ServiceLevel{static_cast<std::uint8_t>(prng.below(8))},
        .seed = seed};
    const Outcome outcome = outcome_of(run);
    const LoadResult& result = outcome.result;
    EXPECT_GT(result.posted_packets, 0U);
    EXPECT_GE(result.posted_packets, result.delivered_packets + result.dropped_packets);
    EXPECT_EQ(outcome.possible.broken_ways, 0U);
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    for (const HostTraffic& host : result.hosts) {
      sent += host.delivered_octets;
      received += host.received_octets;
    }
    EXPECT_EQ(sent, received);
    if (run.settings.queue_life == kForEver) {
      EXPECT_EQ(result.dropped_packets, 0U);
    }
    if (outcome.possible.loops.empty()) {
      EXPECT_FALSE(result.deadlock);
    }
    if (result.deadlock) ++deadlocks;
  }
  EXPECT_GE(deadlocks, 3U);
}

}  // namespace
}  // namespace verbatim::sim
