// SPDX-License-Identifier: Apache-2.0
#include "host/peer_calls.h"

#include <gtest/gtest.h>

namespace verbatim::host {
namespace {

TEST(PeerCalls, NeedLeaveWhereYamaRestrictsThemToDescendants) {
  EXPECT_TRUE(asks_for_leave("1\n"));
  EXPECT_TRUE(asks_for_leave("1"));
  EXPECT_FALSE(asks_for_leave("0\n"));  // anybody of this user may
  EXPECT_FALSE(asks_for_leave("2\n"));  // only who may trace everything
  EXPECT_FALSE(asks_for_leave("3\n"));  // nobody
  EXPECT_FALSE(asks_for_leave("10\n"));
  EXPECT_FALSE(asks_for_leave(""));
}

TEST(PeerCalls, AreAllowedAsOftenAsOneLikes) {
  allow_peer_calls();
  allow_peer_calls();
}

}  // namespace
}  // namespace verbatim::host
