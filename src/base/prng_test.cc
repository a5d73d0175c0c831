// SPDX-License-Identifier: Apache-2.0
#include "base/prng.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace verbatim {
namespace {

// The reference values of splitmix64 for the seed 1234567.
TEST(Prng, IsSplitmix64) {
  Prng prng(1234567);
  EXPECT_EQ(prng.next(), 6457827717110365317U);
  EXPECT_EQ(prng.next(), 3203168211198807973U);
  EXPECT_EQ(prng.next(), 9817491932198370423U);
  EXPECT_EQ(prng.next(), 4593380528125082431U);
  EXPECT_EQ(prng.next(), 16408922859458223821U);
}

TEST(Prng, ASeedReplaysItsHistory) {
  Prng one(42);
  Prng two(42);
  Prng other(43);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t value = one.next();
    EXPECT_EQ(value, two.next());
    differs = differs || value != other.next();
  }
  EXPECT_TRUE(differs);
}

TEST(Prng, StaysBelowItsBoundAndReachesAllOfIt) {
  Prng prng(1);
  std::array<int, 10> seen{};
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t value = prng.below(seen.size());
    ASSERT_LT(value, seen.size());
    ++seen[value];
  }
  for (const int count : seen) {
    EXPECT_GT(count, 800);  // 1000 are due; 6 standard deviations are 180
    EXPECT_LT(count, 1200);
  }
  EXPECT_EQ(prng.below(0), 0U);
  EXPECT_EQ(prng.below(1), 0U);
}

TEST(Prng, BothEndsOfARangeAreInIt) {
  Prng prng(2);
  bool low = false;
  bool high = false;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = prng.between(7, 9);
    ASSERT_GE(value, 7U);
    ASSERT_LE(value, 9U);
    low = low || value == 7;
    high = high || value == 9;
  }
  EXPECT_TRUE(low && high);
  EXPECT_EQ(prng.between(5, 5), 5U);
}

TEST(Prng, TheWholeRangeIsARange) {
  Prng prng(3);
  const auto all = [&] { return prng.between(0, std::numeric_limits<std::uint64_t>::max()); };
  EXPECT_NE(all(), all());
}

TEST(Prng, ChancesAreWhatTheySay) {
  Prng prng(4);
  int one_in_four = 0;
  int per_mille = 0;
  for (int i = 0; i < 10'000; ++i) {
    one_in_four += prng.one_in(4) ? 1 : 0;
    per_mille += prng.per_mille(50) ? 1 : 0;
    EXPECT_FALSE(prng.per_mille(0));
    EXPECT_TRUE(prng.per_mille(1000));
    EXPECT_TRUE(prng.one_in(1));
  }
  EXPECT_NEAR(one_in_four, 2500, 300);
  EXPECT_NEAR(per_mille, 500, 150);
}

}  // namespace
}  // namespace verbatim
