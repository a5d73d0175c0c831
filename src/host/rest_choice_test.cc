// SPDX-License-Identifier: Apache-2.0
#include "host/rest_choice.h"

#include <gtest/gtest.h>

namespace verbatim::host {
namespace {

/// How many yields come before the next rest in a crowd.
int yields_before(RestChoice& choice) {
  int yields = 0;
  while (!choice.is_rest(true)) ++yields;
  return yields;
}

TEST(RestChoice, IsToYieldWhereThereIsNoCrowd) {
  RestChoice choice;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(choice.is_rest(false));
}

TEST(RestChoice, IsToRestInACrowdAsLongAsSomethingWakesTheThread) {
  RestChoice choice;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(yields_before(choice), 0);
    choice.note_rest(i % 3 == 0);
  }
}

TEST(RestChoice, IsToYieldMoreAndMoreWhenNothingWakesTheThread) {
  RestChoice choice;
  int before = 0;
  for (int i = 0; i < 20; ++i) {
    const int yields = yields_before(choice);
    EXPECT_GE(yields, before);
    EXPECT_LE(yields, 64);
    before = yields;
    choice.note_rest(false);
  }
  EXPECT_EQ(before, 64);
  EXPECT_EQ(yields_before(choice), 64);
  choice.note_rest(true);
  EXPECT_EQ(yields_before(choice), 0);
}

}  // namespace
}  // namespace verbatim::host
