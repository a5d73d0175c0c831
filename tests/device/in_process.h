// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>

namespace verbatim::testing {

/// A process that has not ended after this time hangs, and is killed.
inline constexpr auto kProcessPatience = std::chrono::seconds(60);

/// Runs `body` in a process of its own, which exits with what `body` returns.
template <typename Body>
pid_t start_process(Body&& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(static_cast<unsigned>(kProcessPatience.count()));
    ::_exit(static_cast<int>(body()));
  }
  return child;
}

/// start_process(), and the process sets `has_failed`, which is in shared memory, unless `body`
/// returns 0.
template <typename Body>
pid_t start_process(std::atomic<bool>& has_failed, Body&& body) {
  return start_process([&] {
    const int failed = body();
    if (failed != 0) has_failed = true;
    return failed;
  });
}

/// Waits for the process: its exit status, or -1 when a signal has ended it.
inline int exit_status_of(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

template <typename Body>
int in_process(Body&& body) {
  return exit_status_of(start_process(body));
}

}  // namespace verbatim::testing
