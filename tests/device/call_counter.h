// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace verbatim::testing {

/// Counts the system calls of child processes, all threads of them, by tracing them (ptrace(2)).
/// The children must not end meanwhile, and make no threads.
class CallCounter {
 public:
  /// From now on; false when the system forbids tracing.
  bool start(const std::vector<pid_t>& processes) {
    for (const pid_t process : processes) {
      const std::string tasks = "/proc/" + std::to_string(process) + "/task";
      for (const auto& task : std::filesystem::directory_iterator(tasks)) {
        const auto thread = static_cast<pid_t>(std::stoi(task.path().filename()));
        if (::ptrace(PTRACE_SEIZE, thread, nullptr, PTRACE_O_TRACESYSGOOD) != 0) return false;
        if (::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) return false;
        if (::waitpid(thread, nullptr, __WALL) != thread) return false;
        threads_.insert(thread);
        go_on(thread, 0);
      }
    }
    return true;
  }
  /// Lets the threads run until none of them has made a call for this long.
  void run_until_quiet(std::chrono::milliseconds quiet) {
    using Clock = std::chrono::steady_clock;
    for (auto last = Clock::now(); Clock::now() - last < quiet;) {
      if (look()) last = Clock::now();
    }
  }
  /// Lets those run that have stopped; whether there were any.
  bool look() {
    bool found = false;
    for (int status = 0;; found = true) {
      const pid_t thread = ::waitpid(-1, &status, __WALL | WNOHANG);
      if (thread <= 0 || !threads_.contains(thread)) return found;
      if (!WIFSTOPPED(status)) continue;
      const bool is_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
      const bool is_signal = !is_call && status >> 16 == 0 && WSTOPSIG(status) != SIGTRAP;
      if (is_call) ++stops_;
      go_on(thread, is_signal ? WSTOPSIG(status) : 0);
    }
  }
  /// Each call stops its thread twice.
  [[nodiscard]] std::uint64_t calls() const noexcept { return stops_ / 2; }

 private:
  static void go_on(pid_t thread, int signal) { ::ptrace(PTRACE_SYSCALL, thread, nullptr, signal); }

  std::set<pid_t> threads_;
  std::uint64_t stops_ = 0;
};

}  // namespace verbatim::testing
