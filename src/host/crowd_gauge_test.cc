// SPDX-License-Identifier: Apache-2.0
#include "host/crowd_gauge.h"

#include <gtest/gtest.h>

#include <chrono>

namespace verbatim::host {
namespace {

using namespace std::chrono_literals;

/// A thread that polls for a while, then yields, again and again.
class Poller {
 public:
  /// Whether it finds a crowd while it does so for `time`.
  bool finds_crowd(Duration time, Duration polls, Duration yields) {
    const Instant end = at_ + time;
    while (at_ < end) {
      at_ = at_ + polls;
      if (gauge_.is_crowded(at_)) return true;
      at_ = at_ + yields;
      gauge_.note_yield(yields);
    }
    return false;
  }
  /// How long a crowd that was just found is believed in.
  Duration believes() {
    const Instant begin = at_;
    while (gauge_.is_crowded(at_)) at_ = at_ + 1ms;
    return at_ - begin;
  }
  void sleep(Duration time) { at_ = at_ + time; }

 private:
  CrowdGauge gauge_{[]() noexcept { return std::optional<Duration>{}; }};
  Instant at_ = Instant::at(1h);
};

TEST(CrowdGauge, FindsNoneWhereYieldsReturnAtOnce) {
  EXPECT_FALSE(Poller().finds_crowd(1s, 20us, 300ns));
}

TEST(CrowdGauge, FindsNoneBesideAnEngine) { EXPECT_FALSE(Poller().finds_crowd(1s, 20us, 5us)); }

TEST(CrowdGauge, FindsOneWhereOthersHaveTheProcessorForAsLong) {
  EXPECT_TRUE(Poller().finds_crowd(20ms, 5us, 5us));
}

TEST(CrowdGauge, FindsOneBesideAThreadThatComputes) {
  EXPECT_TRUE(Poller().finds_crowd(50ms, 20us, 4ms));
}

TEST(CrowdGauge, FindsNoneAroundAThreadThatSleeps) {
  Poller poller;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(poller.finds_crowd(50us, 20us, 300ns));
    poller.sleep(1ms);
  }
}

Duration g_waited{};  // what the account of the system says

/// Whether there is a crowd for a thread that waits for a processor for so much of each
/// millisecond, though no yield of it takes long.
bool is_crowd_of_one_that_waits(Duration in_each_millisecond) {
  g_waited = 1h;
  CrowdGauge gauge([]() noexcept { return std::optional(g_waited); });
  Instant at = Instant::at(1h);
  for (int i = 0; i < 100; ++i) {
    if (gauge.is_crowded(at)) return true;
    at = at + 1ms;
    g_waited += in_each_millisecond;
  }
  return false;
}

TEST(CrowdGauge, BelievesTheAccountOfTheSystem) {
  EXPECT_FALSE(is_crowd_of_one_that_waits(0us));
  EXPECT_FALSE(is_crowd_of_one_that_waits(200us));
  EXPECT_TRUE(is_crowd_of_one_that_waits(500us));
  EXPECT_TRUE(is_crowd_of_one_that_waits(900us));
}

TEST(CrowdGauge, BelievesForLongerInACrowdThatGoesOn) {
  Poller poller;
  Duration before{};
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(poller.finds_crowd(20ms, 5us, 50us));
    const Duration now = poller.believes();
    EXPECT_GE(now, before);
    EXPECT_LE(now, 1s);
    before = now;
  }
  EXPECT_GE(before, 500ms);
  EXPECT_FALSE(poller.finds_crowd(20ms, 20us, 300ns));
  ASSERT_TRUE(poller.finds_crowd(20ms, 5us, 50us));
  EXPECT_LE(poller.believes(), 100ms);
}

}  // namespace
}  // namespace verbatim::host
