// SPDX-License-Identifier: Apache-2.0
#include "fabric/data/journeys.h"

#include <gtest/gtest.h>

namespace verbatim::fabric {
namespace {

TEST(Journeys, TheLastCopyEndsAJourney) {
  Journeys journeys;
  const JourneyId first = journeys.begin({.handle = 7});
  const JourneyId second = journeys.begin({.handle = 7});
  EXPECT_EQ(journeys.size(), 2U);
  journeys.at(first).copies += 2;
  EXPECT_FALSE(journeys.end_copy(first));
  EXPECT_TRUE(journeys.end_copy(second));
  EXPECT_EQ(journeys.end(second), 7U) << "two packets may have one handle";
  EXPECT_FALSE(journeys.end_copy(first));
  EXPECT_TRUE(journeys.end_copy(first));
  EXPECT_EQ(journeys.end(first), 7U);
  EXPECT_EQ(journeys.size(), 0U);
}

TEST(Journeys, ANewOneKnowsNothingOfAnOldOne) {
  Journeys journeys;
  const JourneyId old = journeys.begin({.handle = 1, .destination = wire::Lid{9}});
  journeys.at(old).links = 5;
  EXPECT_TRUE(journeys.end_copy(old));
  journeys.end(old);
  const Journey& fresh = journeys.at(journeys.begin({.handle = 2}));
  EXPECT_EQ(fresh.handle, 2U);
  EXPECT_EQ(fresh.links, 0U);
  EXPECT_EQ(fresh.header.destination, wire::Lid{});
}

}  // namespace
}  // namespace verbatim::fabric
