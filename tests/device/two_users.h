// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>

#include "wired_network.h"

namespace verbatim::testing {

inline constexpr uid_t kOwner = 61001;     // of the port: its process is the first
inline constexpr uid_t kBorrower = 61002;  // of sockets of the port
inline constexpr uid_t kThird = 61003;

/// A process of a user that runs `body`. It and the test exchange numbers: say() sends
/// one, hear() waits for one.
class UserProcess {
 public:
  /// The side of the process.
  class Voice {
   public:
    Voice(int in, int out) : in_(in), out_(out) {}
    void say(std::uint64_t number) const {
      EXPECT_EQ(::write(out_, &number, sizeof number), static_cast<ssize_t>(sizeof number));
    }
    /// 0 when the other side has ended.
    [[nodiscard]] std::uint64_t hear() const {
      std::uint64_t number = 0;
      return ::read(in_, &number, sizeof number) == sizeof number ? number : 0;
    }

   private:
    int in_, out_;
  };

  template <typename Body>
  UserProcess(uid_t user, Body&& body, const char* device = "e0") {
    EXPECT_EQ(::pipe2(to_.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(from_.data(), O_CLOEXEC), 0);
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(to_[1]);
      ::close(from_[0]);
      ::setenv("VERBATIM_DEVICES", device, 1);
      if (::setresgid(user, user, user) != 0 || ::setresuid(user, user, user) != 0) ::_exit(1);
      body(Voice(to_[0], from_[1]));
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    ::close(to_[0]);
    ::close(from_[1]);
  }
  UserProcess(const UserProcess&) = delete;
  UserProcess& operator=(const UserProcess&) = delete;
  ~UserProcess() {
    ::close(to_[1]);
    ::close(from_[0]);
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    EXPECT_EQ(::waitpid(pid_, nullptr, 0), pid_);
  }

  void say(std::uint64_t number) const { Voice(-1, to_[1]).say(number); }
  [[nodiscard]] std::uint64_t hear() const { return Voice(from_[0], -1).hear(); }
  /// Whether all its expectations held.
  void expect_good_end() {
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "see above; status " << status;
    pid_ = 0;
  }

 private:
  std::array<int, 2> to_{};
  std::array<int, 2> from_{};
  pid_t pid_ = 0;
};

/// Runs `body` in a wired network as root, which can become two other users.
template <typename Body>
void with_several_users(Body&& body) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become two other users";
  in_a_wired_network(std::forward<Body>(body));
}

}  // namespace verbatim::testing
