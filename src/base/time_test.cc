// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include <gtest/gtest.h>

namespace verbatim {
namespace {

using namespace std::chrono_literals;

TEST(Instant, StartsAtZero) { EXPECT_EQ(Instant().since_start(), 0ns); }

TEST(Instant, AddsAndSubtractsDurations) {
  const Instant start = Instant::at(5us);
  const Instant later = start + 250ns;
  EXPECT_EQ(later.since_start(), 5250ns);
  EXPECT_EQ(later - start, 250ns);
  EXPECT_EQ(start - later, -250ns);
}

TEST(Instant, IsOrdered) {
  EXPECT_LT(Instant::at(1ns), Instant::at(2ns));
  EXPECT_EQ(Instant::at(1us), Instant::at(1000ns));
}

TEST(Instant, NeverIsLaterThanAnyDeadline) {
  EXPECT_GT(Instant::never(), Instant::at(24h * 365 * 100) + 24h);
}

}  // namespace
}  // namespace verbatim
