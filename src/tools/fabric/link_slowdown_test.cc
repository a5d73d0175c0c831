// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/link_slowdown.h"

#include <gtest/gtest.h>

namespace verbatim::tools {
namespace {

TEST(LinkSlowdown, IsRealOrOffOrAFraction) {
  EXPECT_EQ(parse_slowdown("real"), 1U);
  EXPECT_EQ(parse_slowdown("off"), 0U);
  EXPECT_EQ(parse_slowdown("1/1"), 1U);
  EXPECT_EQ(parse_slowdown("1/50"), 50U);
  EXPECT_EQ(parse_slowdown("1/1000000"), kSlowdownMax);
}

TEST(LinkSlowdown, NothingElseIsOne) {
  for (const char* text : {"", "1", "1/", "1/0", "1/-2", "2/3", "1/1000001", "1/2x", "1/ 2", "Real",
                           "1/99999999999"}) {
    EXPECT_EQ(parse_slowdown(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace verbatim::tools
