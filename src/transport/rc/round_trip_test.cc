// SPDX-License-Identifier: Apache-2.0
#include "transport/rc/round_trip.h"

#include <gtest/gtest.h>

namespace verbatim::transport {
namespace {

using std::chrono::milliseconds;

TEST(RoundTrip, IsUnknownUntilTheFirstSample) {
  RoundTrip round_trip;
  EXPECT_FALSE(round_trip.is_known());
  round_trip.handle_sample(Duration(0));
  EXPECT_TRUE(round_trip.is_known()) << "however short";
}

TEST(RoundTrip, SuspectsNothingForSomeMilliseconds) {
  RoundTrip round_trip;
  for (int i = 0; i < 100; ++i) round_trip.handle_sample(Duration(5000));
  EXPECT_EQ(round_trip.mean(), Duration(5000));
  EXPECT_EQ(round_trip.suspicion(), RoundTrip::kSmallestSuspicion);
}

TEST(RoundTrip, AllowsForADistantOrUnsteadyPeer) {
  RoundTrip distant;
  for (int i = 0; i < 100; ++i) distant.handle_sample(milliseconds(40));
  EXPECT_GE(distant.suspicion(), milliseconds(40));
  EXPECT_LE(distant.suspicion(), milliseconds(45));
  RoundTrip unsteady;
  for (int i = 0; i < 100; ++i) unsteady.handle_sample(milliseconds(i % 2 == 0 ? 20 : 60));
  EXPECT_GE(unsteady.suspicion(), milliseconds(80));
}

TEST(RoundTrip, WaitsTwiceAsLongEachTimeUntilThereIsProgress) {
  RoundTrip round_trip;
  round_trip.handle_sample(Duration(5000));
  round_trip.handle_suspicion();
  EXPECT_EQ(round_trip.suspicion(), 2 * RoundTrip::kSmallestSuspicion);
  round_trip.handle_suspicion();
  EXPECT_EQ(round_trip.suspicion(), 4 * RoundTrip::kSmallestSuspicion);
  for (int i = 0; i < 100; ++i) round_trip.handle_suspicion();
  EXPECT_GT(round_trip.suspicion(), milliseconds(1000)) << "and never overflows";
  round_trip.handle_progress();
  EXPECT_EQ(round_trip.suspicion(), RoundTrip::kSmallestSuspicion);
}

}  // namespace
}  // namespace verbatim::transport
