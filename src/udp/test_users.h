// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "udp/test_member.h"

/// Processes of several users that share the port. Nothing but tests includes this.
namespace verbatim::link::test {

inline constexpr uid_t kOwner = 61001;
inline constexpr uid_t kBorrower = 61002;
inline constexpr uid_t kThird = 61003;

/// A process of a user that shares the port.
struct UserProcess : MemberProcess {
  explicit UserProcess(uid_t user, std::vector<LocalAddress> addresses = {{.gid = kHome}})
      : MemberProcess(std::move(addresses), nullptr, user) {}
};
using Users = std::vector<std::unique_ptr<UserProcess>>;

inline void start(Users& users, uid_t user, std::size_t count = 1) {
  for (std::size_t i = 0; i < count; ++i) {
    users.push_back(std::make_unique<UserProcess>(user));
    ASSERT_LT(users.back()->slot(), 256U) << "user " << user << " was refused";
  }
}

inline void expect_reachable(Users& users) {
  for (auto& user : users) EXPECT_TRUE(user->is_reachable()) << "slot " << user->slot();
}

template <typename Body>
void as_root_in_a_private_network(Body&& body) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become two other users";
  in_a_private_network(std::forward<Body>(body));
}

/// Runs `body` as a user, in a process that stays until the answer is given back.
class Bystander {
 public:
  template <typename Body>
  Bystander(uid_t user, Body&& body) {
    EXPECT_EQ(::pipe2(ready_.data(), O_CLOEXEC), 0);
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      if (::setresuid(user, user, user) != 0) ::_exit(1);
      body([this] { (void)!::write(ready_[1], "!", 1); });
      ::_exit(0);
    }
    ::close(ready_[1]);
    char octet = 0;
    EXPECT_EQ(::read(ready_[0], &octet, 1), 1);
  }
  Bystander(const Bystander&) = delete;
  Bystander& operator=(const Bystander&) = delete;
  ~Bystander() {
    ::kill(pid_, SIGKILL);
    EXPECT_EQ(::waitpid(pid_, nullptr, 0), pid_);
    ::close(ready_[0]);
  }

 private:
  std::array<int, 2> ready_{};
  pid_t pid_ = 0;
};

}  // namespace verbatim::link::test
