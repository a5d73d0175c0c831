// SPDX-License-Identifier: Apache-2.0
// Whole connections over bad networks. VERBATIM_SEED=n replays one history; VERBATIM_HISTORIES=n
// runs that many. A seed that failed goes into seeds.txt.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "sim/history.h"

namespace verbatim::sim {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

bool check_one_history(std::uint64_t seed) {
  SCOPED_TRACE("VERBATIM_SEED=" + std::to_string(seed));
  const auto result = run_history(HistoryOptions::random(seed));
  EXPECT_EQ(result.complaint, "");
  return result.every_request_done;
}

/// The seeds that ever failed, one per line; what follows a # is why.
std::vector<std::uint64_t> seeds_that_failed() {
  std::vector<std::uint64_t> seeds;
  std::ifstream file(VB_TESTDATA "/sim/seeds.txt");
  for (std::string line; std::getline(file, line);) {
    char* end = nullptr;
    const std::uint64_t seed = std::strtoull(line.c_str(), &end, 0);
    if (end != line.c_str()) seeds.push_back(seed);
  }
  return seeds;
}

TEST(History, WhatFailedOnceNeverFailsAgain) {
  const auto seeds = seeds_that_failed();
  EXPECT_FALSE(seeds.empty()) << "tests/sim/seeds.txt is not where it should be";
  for (const std::uint64_t seed : seeds) check_one_history(seed);
}

TEST(History, EveryRandomHistoryGoesAsModelled) {
  if (const auto seed = from_environment("VERBATIM_SEED", 0); seed != 0) {
    check_one_history(seed);
    return;
  }
  const auto count = from_environment("VERBATIM_HISTORIES", 2000);
  std::uint64_t finished = 0;
  for (std::uint64_t seed = 1; seed <= count && !HasFailure(); ++seed) {
    if (check_one_history(seed)) ++finished;
  }
  // A history may end in exhausted retries where the network is terrible, but that is the
  // exception.
  EXPECT_GT(finished, count * 8 / 10);
}

TEST(History, OneSeedIsOneTrace) {
  for (const std::uint64_t seed : {3UL, 17UL, 42UL, 1156UL}) {
    SCOPED_TRACE("VERBATIM_SEED=" + std::to_string(seed));
    const auto once = run_history(HistoryOptions::random(seed));
    const auto again = run_history(HistoryOptions::random(seed));
    EXPECT_EQ(once.trace, again.trace);
    EXPECT_EQ(once.frames, again.frames);
    EXPECT_EQ(once.duration, again.duration);
  }
  EXPECT_NE(run_history(HistoryOptions::random(3)).trace,
            run_history(HistoryOptions::random(4)).trace);
}

}  // namespace
}  // namespace verbatim::sim
