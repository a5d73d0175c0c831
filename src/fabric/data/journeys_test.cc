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
  EXPECT_EQ(journeys.end_copy(second), 7U) << "two packets may have one handle";
  EXPECT_FALSE(journeys.end_copy(first));
  EXPECT_EQ(journeys.end_copy(first), 7U);
  EXPECT_EQ(journeys.size(), 0U);
}

TEST(Journeys, ANewOneKnowsNothingOfAnOldOne) {
  Journeys journeys;
  const JourneyId old = journeys.begin({.handle = 1, .destination = wire::Lid{9}});
  journeys.at(old).links = 5;
  (void)journeys.end_copy(old);
  const Journey& fresh = journeys.at(journeys.begin({.handle = 2}));
  EXPECT_EQ(fresh.handle, 2U);
  EXPECT_EQ(fresh.links, 0U);
  EXPECT_EQ(fresh.header.destination, wire::Lid{});
}

}  // namespace
}  // namespace verbatim::fabric
