// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/psn.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace verbatim::wire {
namespace {

TEST(Psn, HoldsTwentyFourBits) {
  EXPECT_EQ(Psn(0x12ab'cdefU).raw(), 0xab'cdefU);
  EXPECT_EQ(Psn().raw(), 0U);
}

TEST(Psn, WrapsInBothDirections) {
  EXPECT_EQ(Psn(0xff'ffff) + 1, Psn(0));
  EXPECT_EQ(Psn(0) - 1, Psn(0xff'ffff));
  EXPECT_EQ(Psn(5) + 0x100'0000U, Psn(5));
}

// A distance of 1 to 2^23 - 1 is ahead, the other 2^23 values are behind.
TEST(Psn, HalfTheCircleIsAheadAndHalfIsBehind) {
  const Psn base(0xff'fff0);
  EXPECT_EQ(base.distance_from(base), 0);
  EXPECT_EQ((base + 1).distance_from(base), 1);
  EXPECT_EQ((base - 1).distance_from(base), -1);
  EXPECT_EQ((base + 0x7f'ffff).distance_from(base), 0x7f'ffff);
  EXPECT_EQ((base + 0x80'0000).distance_from(base), -0x80'0000);
}

TEST(Psn, BeforeIsABehindDistance) {
  EXPECT_TRUE(Psn(0xff'ffff).is_before(Psn(0)));
  EXPECT_FALSE(Psn(0).is_before(Psn(0xff'ffff)));
  EXPECT_FALSE(Psn(7).is_before(Psn(7)));
}

TEST(Psn, DistanceUndoesAddition) {
  Prng prng(1);
  for (int i = 0; i < 10'000; ++i) {
    const Psn base(static_cast<std::uint32_t>(prng.next()));
    const auto by = static_cast<std::int32_t>(prng.below(1U << 24)) - (1 << 23);
    EXPECT_EQ((base + static_cast<std::uint32_t>(by)).distance_from(base), by);
  }
}

}  // namespace
}  // namespace verbatim::wire
