// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>

/// What the tests of this layer share. Nothing but tests includes this.
namespace verbatim::host::test {

inline constexpr int kSkipped = 77;

/// Runs `body` in a process of its own and returns how it ended: 0 when no expectation failed.
template <typename Body>
int in_a_child(Body&& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

/// Runs `body` where no other process has a slot: alone in a network namespace.
template <typename Body>
void in_a_private_network(Body&& body) {
  const int ended = in_a_child([&] {
    if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
      ::_exit(kSkipped);
    }
    body();
  });
  if (ended == kSkipped) GTEST_SKIP() << "the system allows no network namespace";
  EXPECT_EQ(ended, 0);
}

inline std::size_t open_descriptor_count() {
  DIR* folder = ::opendir("/proc/self/fd");
  std::size_t count = 0;
  while (folder != nullptr && ::readdir(folder) != nullptr) ++count;
  if (folder != nullptr) ::closedir(folder);
  return count;
}

}  // namespace verbatim::host::test
