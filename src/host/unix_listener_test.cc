// SPDX-License-Identifier: Apache-2.0
#include "host/unix_listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <vector>

#include "host/test_process.h"

namespace verbatim::host {
namespace {

constexpr int kBacklog = 16;

bool is_readable(int epoll) {
  pollfd readable{.fd = epoll, .events = POLLIN, .revents = 0};
  return ::poll(&readable, 1, 0) == 1;
}

int connect_to(const UnixName& name) {
  const int connection = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  EXPECT_EQ(name.connect(connection), 0);
  return connection;
}

bool was_closed(int connection) {
  char octet = 0;
  return ::recv(connection, &octet, 1, 0) == 0;
}

/// While it exists, the process gets no descriptor: all numbers below `limit` are used.
class NoDescriptors {
 public:
  explicit NoDescriptors(rlim_t limit) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{.rlim_cur = limit, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (int one = ::dup(0); one >= 0; one = ::dup(0)) all_.push_back(one);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() {
    for (const int one : all_) ::close(one);
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }

 private:
  rlimit before_{};
  std::vector<int> all_;
};

TEST(UnixListener, RefusesWithoutBeingWokenAgainWhenThereIsNoDescriptorLeft) {
  test::in_a_private_network([] {
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    const UnixName name = UnixName::in_directory("test");
    UnixListener listener;
    ASSERT_TRUE(listener.open(name, kBacklog, epoll).ok());
    const int first = connect_to(name);
    const int second = connect_to(name);
    {
      const NoDescriptors none(64);
      EXPECT_TRUE(is_readable(epoll));
      EXPECT_EQ(listener.accept(), -1);
      EXPECT_FALSE(is_readable(epoll));
      EXPECT_TRUE(was_closed(first) && was_closed(second));
      EXPECT_EQ(listener.accept(), -1);  // with nothing to refuse
    }
    const int third = connect_to(name);
    EXPECT_TRUE(is_readable(epoll));
    EXPECT_GE(listener.accept(), 0);
    EXPECT_EQ(listener.accept(), -1);
    EXPECT_FALSE(is_readable(epoll));
    EXPECT_FALSE(was_closed(third));
  });
}

TEST(UnixListener, RestsUntilTheNextCallWhenItsSpareDescriptorIsTakenAsWell) {
  test::in_a_private_network([] {
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    const UnixName name = UnixName::in_directory("test");
    UnixListener listener;
    ASSERT_TRUE(listener.open(name, kBacklog, epoll).ok());
    const int waiting = connect_to(name);
    {
      const NoDescriptors none(1);  // not even the number of the spare one
      EXPECT_EQ(listener.accept(), -1);
      EXPECT_FALSE(is_readable(epoll));
    }
    EXPECT_GE(listener.accept(), 0);
    EXPECT_FALSE(was_closed(waiting));
    EXPECT_EQ(listener.accept(), -1);
    const int next = connect_to(name);
    EXPECT_TRUE(is_readable(epoll));
    ::close(next);
  });
}

}  // namespace
}  // namespace verbatim::host
