// SPDX-License-Identifier: Apache-2.0
#include "host/peer_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/test_process.h"

namespace verbatim::host {
namespace {

using Slots = std::vector<std::uint32_t>;

/// Waits until there is something to take; the limit only bounds a hang.
bool await(int epoll) {
  pollfd readable{.fd = epoll, .events = POLLIN, .revents = 0};
  return ::poll(&readable, 1, 30'000) == 1;
}

/// A process that has a slot until it is killed.
pid_t start_peer(std::uint32_t slot, std::uint32_t watches) {
  int ready[2];
  if (::pipe(ready) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    PeerWatch watch;
    const bool opened = watch.open(slot, ::epoll_create1(EPOLL_CLOEXEC)).ok();
    watch.watch(watches);
    (void)!::write(ready[1], opened ? "y" : "n", 1);
    for (;;) ::pause();
  }
  char octet = 'n';
  (void)!::read(ready[0], &octet, 1);
  ::close(ready[0]);
  ::close(ready[1]);
  return octet == 'y' ? child : -1;
}

void end(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(PeerWatch, NoticesTheEndOfAnEarlierAndOfALaterProcess) {
  test::in_a_private_network([] {
    const pid_t earlier = start_peer(3, 99);
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    PeerWatch watch;
    ASSERT_TRUE(watch.open(4, epoll).ok());
    watch.watch(3);
    const pid_t later = start_peer(5, 4);
    ASSERT_TRUE(await(epoll));
    EXPECT_EQ(watch.take_deaths(), Slots{}) << "one has come";
    EXPECT_EQ(watch.living(), (Slots{3, 5}));
    end(earlier);
    ASSERT_TRUE(await(epoll));
    EXPECT_EQ(watch.take_deaths(), Slots{3});
    end(later);
    ASSERT_TRUE(await(epoll));
    EXPECT_EQ(watch.take_deaths(), Slots{5});
    EXPECT_EQ(watch.living(), Slots{});
    EXPECT_EQ(watch.take_deaths(), Slots{});
    ::close(epoll);
  });
}

TEST(PeerWatch, DoesNotWaitForAnEmptySlot) {
  test::in_a_private_network([] {
    const std::size_t before = test::open_descriptor_count();
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    {
      PeerWatch watch;
      ASSERT_TRUE(watch.open(0, epoll).ok());
      watch.watch(0);
      watch.watch(1);
      EXPECT_EQ(watch.take_deaths(), Slots{});
      PeerWatch second;
      EXPECT_FALSE(second.open(0, epoll).ok());
    }
    ::close(epoll);
    EXPECT_EQ(test::open_descriptor_count(), before);
  });
}

}  // namespace
}  // namespace verbatim::host
