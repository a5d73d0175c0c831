// SPDX-License-Identifier: Apache-2.0
#include "fabric/topology/link_rate.h"

#include <gtest/gtest.h>

namespace verbatim::fabric {
namespace {

TEST(LinkRate, EachRateIsReadAsItIsWritten) {
  using enum LinkWidth;
  using enum LinkSpeed;
  for (const LinkWidth width : {k1x, k2x, k4x, k8x, k12x}) {
    for (const LinkSpeed speed : {kSdr, kDdr, kQdr, kFdr10, kFdr, kEdr, kHdr, kNdr, kXdr}) {
      const LinkRate rate{width, speed};
      EXPECT_EQ(parse_link_rate(text_of(rate)), rate) << text_of(rate);
    }
  }
}

TEST(LinkRate, ProgramsShowGigabitsPerSecond) {
  EXPECT_EQ(gigabits_of({LinkWidth::k4x, LinkSpeed::kSdr}), 10U);
  EXPECT_EQ(gigabits_of({LinkWidth::k4x, LinkSpeed::kQdr}), 40U);
  EXPECT_EQ(gigabits_of({LinkWidth::k4x, LinkSpeed::kFdr}), 56U);
  EXPECT_EQ(gigabits_of({LinkWidth::k4x, LinkSpeed::kEdr}), 100U);
  EXPECT_EQ(gigabits_of({LinkWidth::k4x, LinkSpeed::kHdr}), 200U);
  EXPECT_EQ(gigabits_of({LinkWidth::k12x, LinkSpeed::kNdr}), 1200U);
}

TEST(LinkRate, LettersOfEitherCaseAreRead) {
  EXPECT_EQ(parse_link_rate("4xhdr"), (LinkRate{LinkWidth::k4x, LinkSpeed::kHdr}));
  EXPECT_EQ(parse_link_rate("4XSDR"), (LinkRate{LinkWidth::k4x, LinkSpeed::kSdr}));
  EXPECT_EQ(text_of({LinkWidth::k1x, LinkSpeed::kFdr10}), "1xFDR10");
}

TEST(LinkRate, OtherTextsAreNoRates) {
  for (const char* text : {"", "4x", "EDR", "3xEDR", "4xEDR ", "4 xEDR", "4xFDR1", "x4EDR"}) {
    EXPECT_FALSE(parse_link_rate(text)) << text;
  }
}

}  // namespace
}  // namespace verbatim::fabric
