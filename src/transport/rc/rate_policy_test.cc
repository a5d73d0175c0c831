// SPDX-License-Identifier: Apache-2.0
#include "transport/rc/rate_policy.h"

#include <gtest/gtest.h>

namespace verbatim::transport {
namespace {

using std::chrono::microseconds;

Instant at(std::int64_t us) { return Instant::at(microseconds(us)); }

TEST(RatePolicy, HoldsNothingBackWithoutALimit) {
  RatePolicy rate;
  for (int i = 0; i < 1000; ++i) rate.handle_sent(at(0), 4096);
  EXPECT_TRUE(rate.may_send(at(0)));
}

TEST(RatePolicy, LetsAPeriodsWorthGoAtOnceAndTheRestWait) {
  RatePolicy rate;
  rate.limit({.octets = 10'000, .period = microseconds(20)});
  rate.handle_sent(at(100), 6'000);
  EXPECT_TRUE(rate.may_send(at(101)));
  rate.handle_sent(at(105), 6'000);
  EXPECT_FALSE(rate.may_send(at(119)));
  EXPECT_EQ(rate.next_opportunity(), at(120)) << "the period began with its first packet";
  EXPECT_TRUE(rate.may_send(at(120)));
}

TEST(RatePolicy, AHoldWorksWithoutALimit) {
  RatePolicy rate;
  rate.hold_until(at(50));
  EXPECT_FALSE(rate.may_send(at(49)));
  EXPECT_EQ(rate.next_opportunity(), at(50));
  rate.hold_until(at(20));
  EXPECT_FALSE(rate.may_send(at(49))) << "the longer of two waits";
  EXPECT_TRUE(rate.may_send(at(50)));
}

TEST(RatePolicy, AnUnusedPeriodIsNotSavedUp) {
  RatePolicy rate;
  rate.limit({.octets = 10'000, .period = microseconds(20)});
  rate.handle_sent(at(1000), 5'000);
  rate.handle_sent(at(2000), 9'000);
  EXPECT_TRUE(rate.may_send(at(2000)));
  rate.handle_sent(at(2001), 1'000);
  EXPECT_FALSE(rate.may_send(at(2001)));
}

}  // namespace
}  // namespace verbatim::transport
