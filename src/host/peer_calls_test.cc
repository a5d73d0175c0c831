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
  EXPECT_FALSE(allows_lending("2\n"));  // only processes with CAP_SYS_PTRACE may
  EXPECT_FALSE(allows_lending("3\n"));  // no process may
}

}  // namespace
}  // namespace verbatim::host
