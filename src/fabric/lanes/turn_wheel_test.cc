// SPDX-License-Identifier: Apache-2.0
#include "fabric/lanes/turn_wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/prng.h"

namespace verbatim::fabric {
namespace {

Instant at(std::int64_t nanoseconds) { return Instant::at(Duration(nanoseconds)); }

using Turns = std::vector<std::pair<std::int64_t, std::uint32_t>>;

Turns all_of(TurnWheel& wheel) {
  Turns turns;
  while (wheel.next_due() != Instant::never()) {
    const std::int64_t due = wheel.next_due().since_start().count();
    turns.emplace_back(due, wheel.pop());
  }
  return turns;
}

TEST(TurnWheel, GivesTheEarliestTurnFirst) {
  TurnWheel wheel(8);
  EXPECT_EQ(wheel.next_due(), Instant::never());
  wheel.add(at(0), 1, at(300));
  wheel.add(at(0), 2, at(5));
  wheel.add(at(0), 3, at(70'000));
  wheel.add(at(0), 4, at(100));
  EXPECT_EQ(all_of(wheel), (Turns{{5, 2}, {100, 4}, {300, 1}, {70'000, 3}}));
}

TEST(TurnWheel, KeepsTheOrderOfOneInstant) {
  TurnWheel wheel(8);
  for (const std::uint32_t owner : {5U, 1U, 7U}) wheel.add(at(0), owner, at(9));
  EXPECT_EQ(all_of(wheel), (Turns{{9, 5}, {9, 1}, {9, 7}}));
}

TEST(TurnWheel, ATurnInThePastIsNow) {
  TurnWheel wheel(2);
  wheel.add(at(1'000), 0, at(10));
  EXPECT_EQ(all_of(wheel), (Turns{{1'000, 0}}));
}

TEST(TurnWheel, IsAsASortedList) {
  constexpr std::uint32_t kOwners = 200;
  TurnWheel wheel(kOwners);
  std::multimap<std::int64_t, std::uint32_t> expected;
  std::vector<bool> has_turn(kOwners);
  Prng prng(7);
  std::int64_t now = 0;
  std::size_t far = 0;
  for (int step = 0; step < 100'000; ++step) {
    const auto owner = static_cast<std::uint32_t>(prng.below(kOwners));
    if (!has_turn[owner] && prng.one_in(2)) {
      const std::uint64_t later = prng.one_in(20) ? 100'000 : 400;
      const std::int64_t due = now + static_cast<std::int64_t>(prng.below(later));
      if (due - now > 20'000) ++far;
      wheel.add(at(now), owner, at(due));
      expected.emplace(due, owner);
      has_turn[owner] = true;
    } else if (!expected.empty()) {
      ASSERT_EQ(wheel.next_due(), at(expected.begin()->first));
      now = expected.begin()->first;
      const std::uint32_t popped = wheel.pop();
      const auto [first, last] = expected.equal_range(now);
      const auto found =
          std::find_if(first, last, [&](const auto& e) { return e.second == popped; });
      ASSERT_NE(found, last);
      expected.erase(found);
      has_turn[popped] = false;
    }
  }
  EXPECT_GT(far, 100U);
}

}  // namespace
}  // namespace verbatim::fabric
