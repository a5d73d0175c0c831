// SPDX-License-Identifier: Apache-2.0
#include "host/peer_calls.h"

#include <gtest/gtest.h>

namespace verbatim::host {
namespace {

TEST(PeerCalls, AreLentToPeersUnlessTheAdministratorForbidsThemToAll) {
  EXPECT_TRUE(allows_lending("0\n"));
  EXPECT_TRUE(allows_lending("1\n"));
  EXPECT_TRUE(allows_lending("1"));
  EXPECT_TRUE(allows_lending(""));
  EXPECT_FALSE(allows_lending("2\n"));  // only a process that may trace everything
  EXPECT_FALSE(allows_lending("3\n"));  // none
}

}  // namespace
}  // namespace verbatim::host
