// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/expected.h"

namespace verbatim::tools {

/// A program that this process has started. It gets SIGTERM when this process ends. Thread: one.
class ChildProcess {
 public:
  struct Settings {
    std::vector<std::string> command{};    // not empty
    std::string output{};                  // a file for what it prints; empty: as this process
    std::string folder{};                  // where it runs; empty: here
    bool has_own_group = false;            // so that a terminal sends it no signals
    std::function<void()> before_start{};  // in the new process; may set variables
  };

  ChildProcess() = default;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ChildProcess(ChildProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)), status_(std::exchange(other.status_, std::nullopt)) {}
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  /// Kills it if it runs.
  ~ChildProcess();

  [[nodiscard]] static Expected<ChildProcess> start(const Settings& settings, std::string& message);

  [[nodiscard]] bool runs() const noexcept { return pid_ != 0; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void signal(int number) noexcept;
  /// Looks whether it has ended. To be called after SIGCHLD.
  void reap() noexcept;
  /// As a shell has it: the exit status, or 128 and the signal. Nothing while it runs.
  [[nodiscard]] std::optional<int> exit_status() const noexcept { return status_; }

 private:
  pid_t pid_ = 0;
  std::optional<int> status_;
};

}  // namespace verbatim::tools
