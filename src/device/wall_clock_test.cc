// SPDX-License-Identifier: Apache-2.0
#include "device/wall_clock.h"

#include <gtest/gtest.h>

namespace verbatim::device {
namespace {

constexpr std::int64_t kDay = 1'700'000'000'000'000'000;

TEST(WallClock, AMomentHasOneTimeOfDayHoweverTheClocksWereRead) {
  WallClock clock;
  const auto first = clock.at(5'000, {.before = 10'000, .time_of_day = kDay, .after = 10'100});
  for (const std::int64_t error : {-90, 40, 90, -900'000, 900'000}) {
    const auto again =
        clock.at(5'000, {.before = 20'000, .time_of_day = kDay + 10'000 + error, .after = 20'100});
    EXPECT_EQ(again, first) << error;
  }
}

TEST(WallClock, MomentsStayInTheirOrder) {
  WallClock clock;
  std::uint64_t last = 0;
  for (std::uint64_t moment = 1; moment < 100; ++moment) {
    const auto now = static_cast<std::int64_t>(moment) + 1'000;
    const std::int64_t error = moment % 2 == 0 ? 50'000 : -50'000;
    const auto at = clock.at(moment, {now, kDay + now + error, now + 100});
    EXPECT_GT(at, last);
    last = at;
  }
}

TEST(WallClock, TheTimeOfDayMayBeSet) {
  WallClock clock;
  const auto before = clock.at(5'000, {.before = 10'000, .time_of_day = kDay, .after = 10'000});
  constexpr std::int64_t kHour = 3'600'000'000'000;
  const auto after =
      clock.at(5'000, {.before = 20'000, .time_of_day = kDay + kHour + 10'000, .after = 20'000});
  EXPECT_EQ(after - before, static_cast<std::uint64_t>(kHour));
}

TEST(WallClock, AThreadThatWasInterruptedBetweenTheClocksChangesNothing) {
  WallClock clock;
  const auto before = clock.at(5'000, {.before = 10'000, .time_of_day = kDay, .after = 10'000});
  // A tenth of a second passed after the time of day was read.
  const auto after =
      clock.at(5'000, {.before = 20'000, .time_of_day = kDay + 10'000, .after = 100'020'000});
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace verbatim::device
