// SPDX-License-Identifier: Apache-2.0
#include "fabric/alarm_heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "base/prng.h"

namespace verbatim::fabric {
namespace {

Instant at(std::uint64_t ns) { return Instant::at(std::chrono::nanoseconds(ns)); }

TEST(AlarmHeap, TheEarliestComesFirst) {
  AlarmHeap alarms(3);
  EXPECT_FALSE(alarms.next_due());
  alarms.set(0, at(20));
  alarms.set(1, at(10));
  alarms.set(2, at(30));
  EXPECT_EQ(alarms.next_due(), at(10));
  EXPECT_EQ(alarms.next_owner(), 1U);
  alarms.set(1, std::nullopt);
  EXPECT_EQ(alarms.next_owner(), 0U);
  alarms.set(0, at(40));
  EXPECT_EQ(alarms.next_owner(), 2U);
  alarms.set(2, std::nullopt);
  alarms.set(2, std::nullopt);
  alarms.set(0, std::nullopt);
  EXPECT_FALSE(alarms.next_due());
}

TEST(AlarmHeap, ItAgreesWithAListOfAllAlarms) {
  Prng prng(7);
  constexpr std::uint32_t kOwners = 50;
  AlarmHeap alarms(kOwners);
  std::vector<std::optional<Instant>> all(kOwners);
  for (int step = 0; step < 20'000; ++step) {
    const auto owner = static_cast<std::uint32_t>(prng.below(kOwners));
    all[owner] = prng.one_in(3) ? std::nullopt : std::optional(at(prng.below(1000)));
    alarms.set(owner, all[owner]);
    std::optional<Instant> earliest;
    for (const auto& due : all) {
      if (due && (!earliest || *due < *earliest)) earliest = due;
    }
    ASSERT_EQ(alarms.next_due(), earliest) << step;
    if (!earliest) continue;
    ASSERT_EQ(all[alarms.next_owner()], earliest) << step;
  }
}

}  // namespace
}  // namespace verbatim::fabric
