// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "private_network.h"

namespace verbatim::testing {

/// Runs ip(8); expects that it succeeds.
inline void ip(const std::string& words) {
  EXPECT_EQ(std::system(("ip " + words).c_str()), 0) << "ip " << words;
}

/// Runs `body` in a child that has a network of its own with one cable: e0 is the device, with the
/// addresses 10.9.0.1 and fd09::1; no host is at its other end. Failed expectations of the child
/// count; where the system gives no such network, the test is skipped.
template <typename Body>
void in_a_wired_network(Body&& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    if (!enter_private_network()) ::_exit(77);
    if (std::system("ip link add e0 type veth peer name e1") != 0) ::_exit(77);
    ip("link set e1 up");
    ip("link set e0 up");
    ip("addr add 10.9.0.1/24 dev e0");
    ip("addr add fd09::1/64 dev e0 nodad");
    ::setenv("VERBATIM_DEVICES", "e0", 1);
    body();
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no veth to be had";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "see above; status " << status;
}

}  // namespace verbatim::testing
