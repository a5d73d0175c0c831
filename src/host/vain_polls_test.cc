// SPDX-License-Identifier: Apache-2.0
#include "host/vain_polls.h"

#include <gtest/gtest.h>

namespace verbatim::host {
namespace {

TEST(VainPolls, AreLongAfterManyGlancesOrSomeLooks) {
  VainPolls glances;
  int count = 0;
  for (; !glances.is_long(); ++count) glances.note_glance();
  EXPECT_EQ(count, 400);
  VainPolls looks;
  for (count = 0; !looks.is_long(); ++count) looks.note_look();
  EXPECT_EQ(count, 40);
}

TEST(VainPolls, BeginAnewWhenAPollHasFoundSomethingAndAfterGivingWay) {
  VainPolls polls;
  while (!polls.is_long()) polls.note_look();
  polls.note_success();
  EXPECT_FALSE(polls.is_long());
  while (!polls.is_long()) polls.note_look();
  polls.give_way();
  EXPECT_FALSE(polls.is_long());
}

}  // namespace
}  // namespace verbatim::host
