// SPDX-License-Identifier: Apache-2.0
// Whole fabrics with a subnet manager, cables that come and go, lost management datagrams, and
// packets of programs.
// VERBATIM_SEED=n replays the histories with this seed. VERBATIM_HISTORIES=n asks for more of them,
// or fewer: for as large a part of those here as n is of 2,000, which another test runs without it.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "sim/fabric/fabric_history.h"

namespace verbatim::fabric::test {
namespace {

using std::chrono::microseconds;

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

/// How many histories of a kind of which there are usually `count`.
std::uint64_t histories_of(std::uint64_t count) {
  constexpr std::uint64_t kUsual = 2000;
  return std::max<std::uint64_t>(1,
                                 count * from_environment("VERBATIM_HISTORIES", kUsual) / kUsual);
}

/// Runs `history` with many seeds, or with the one that the environment names.
template <typename Check>
void with_seeds(FabricHistory history, std::uint64_t count, Check&& check) {
  const auto only = from_environment("VERBATIM_SEED", 0);
  const auto first = only == 0 ? 1 : only;
  const auto last = only == 0 ? histories_of(count) : only;
  for (std::uint64_t seed = first; seed <= last && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("VERBATIM_SEED=" + std::to_string(seed));
    history.seed = seed;
    const FabricHistoryResult result = run_fabric_history(history);
    EXPECT_EQ(result.complaint, "");
    EXPECT_GT(result.ports, 0);
    EXPECT_GT(result.pings, 0);
    check(result);
  }
}
void with_seeds(const FabricHistory& history, std::uint64_t count) {
  with_seeds(history, count, [](const FabricHistoryResult&) {});
}

TEST(FabricHistory, EachRandomFabricComesUpWithinTwoSweeps) {
  with_seeds({}, 30, [](const FabricHistoryResult& result) { EXPECT_LE(result.sweeps, 2); });
}

TEST(FabricHistory, ComesUpAgainAfterCablesAndPowerWentAndCame) { with_seeds({.events = 12}, 30); }

TEST(FabricHistory, TrapsAloneTellTheSubnetManagerOfEveryChange) {
  with_seeds({.events = 6, .looks_at_switches = false}, 20);
  with_seeds({.loss_per_mille = 300, .events = 2, .looks_at_switches = false}, 20);
}

TEST(FabricHistory, ConvergesWhenATenthOfAllManagementDatagramsIsLost) {
  with_seeds({.loss_per_mille = 100}, 15);
  with_seeds({.loss_per_mille = 100, .events = 8}, 15);
}

TEST(FabricHistory, EachPacketOfAProgramIsDoneOnceWhateverHappensToTheLinks) {
  const auto has_arrivals = [](const FabricHistoryResult& result) {
    EXPECT_GT(result.packets, 100U);
  };
  with_seeds({.events = 12, .has_data = true}, 20, has_arrivals);
  with_seeds({.events = 12, .has_data = true, .hop_delay = Duration{0}}, 20, has_arrivals);
  with_seeds({.events = 4, .has_data = true, .hop_delay = microseconds(200)}, 5, has_arrivals);
}

/// A datagram of management takes 25 us on a link, a packet 33 us.
TEST(FabricHistory, LinksThatAreSlowKeepAllPromises) {
  const auto has_arrivals = [](const FabricHistoryResult& result) {
    EXPECT_GT(result.packets, 100U);
  };
  with_seeds({.events = 8, .has_data = true, .slowdown = 1'000}, 15, has_arrivals);
  with_seeds({.events = 8, .has_data = true, .hop_delay = Duration{0}, .slowdown = 1'000}, 15,
             has_arrivals);
}

TEST(FabricHistory, OneSeedIsOneTrace) {
  for (const std::uint64_t seed : {3UL, 17UL}) {
    SCOPED_TRACE(seed);
    const FabricHistory history{.seed = seed, .loss_per_mille = 50, .events = 5};
    const auto once = run_fabric_history(history);
    const auto again = run_fabric_history(history);
    EXPECT_EQ(once.trace, again.trace);
    EXPECT_EQ(once.duration, again.duration);
    FabricHistory other = history;
    other.seed = seed + 1;
    EXPECT_NE(run_fabric_history(other).trace, once.trace);
  }
}

}  // namespace
}  // namespace verbatim::fabric::test
