// SPDX-License-Identifier: Apache-2.0
#include "device/event_pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/test_cancelled_thread.h"

namespace verbatim::device {
namespace {

class EventPipeTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(pipe.open()); }

  bool is_readable() const {
    pollfd polled{.fd = pipe.descriptor(), .events = POLLIN, .revents = 0};
    return ::poll(&polled, 1, 0) == 1;
  }
  /// The subject of the next event; 0 when there is none.
  std::uint64_t next() {
    if (!is_readable()) return 0;
    std::uint64_t subject = 0;
    EXPECT_TRUE(pipe.read([&](const PipeEvent& event) { subject = event.subject; }));
    return subject;
  }
  void make_non_blocking() const { ASSERT_EQ(::fcntl(pipe.descriptor(), F_SETFL, O_NONBLOCK), 0); }

  EventPipe pipe;
};

TEST_F(EventPipeTest, LosesNoEventHoweverManyWait) {
  constexpr std::uint64_t kMany = 100'000;  // more than a pipe of the system holds
  for (std::uint64_t i = 1; i <= kMany; ++i) pipe.write({.kind = 1, .subject = i});
  for (std::uint64_t i = 1; i <= kMany; ++i) ASSERT_EQ(next(), i);
  EXPECT_FALSE(is_readable());
}

TEST_F(EventPipeTest, EventsOfOneSourceTakeTurnsWithOthers) {
  EventPipe::Unread first;
  EventPipe::Unread second;
  for (int i = 0; i < 3; ++i) pipe.write({.kind = 0, .subject = 1}, first);
  pipe.write({.kind = 0, .subject = 2}, second);
  std::vector<std::uint64_t> read;
  while (const std::uint64_t subject = next()) read.push_back(subject);
  EXPECT_EQ(read, (std::vector<std::uint64_t>{1, 2, 1, 1}));
  EXPECT_EQ(first.count, 0U);
  EXPECT_EQ(second.count, 0U);
}

TEST_F(EventPipeTest, ForgetsOneSubjectAndKeepsTheOthers) {
  EventPipe::Unread unread;
  pipe.write({.kind = 0, .subject = 1}, unread);
  pipe.write({.kind = 0, .subject = 1}, unread);
  pipe.write({.kind = 3, .subject = 2});
  pipe.forget(1);
  EXPECT_EQ(unread.count, 0U);
  EXPECT_EQ(next(), 2U);
  pipe.write({.kind = 3, .subject = 1});
  pipe.forget(1);
  EXPECT_FALSE(is_readable());
}

TEST_F(EventPipeTest, KeepsTheNewestOfManyEqualEvents) {
  for (int i = 0; i < 10'000; ++i) {
    pipe.write_newest({.kind = 9, .subject = 1});
    pipe.write_newest({.kind = 10, .subject = 1});
  }
  std::vector<std::uint32_t> kinds;
  while (is_readable()) {
    ASSERT_TRUE(pipe.read([&](const PipeEvent& event) { kinds.push_back(event.kind); }));
  }
  EXPECT_EQ(kinds.size(), EventPipe::kManyUnread);
  EXPECT_EQ(kinds.back(), 10U);
}

TEST_F(EventPipeTest, EdgeTriggeredReadersHearOfEachEvent) {
  const int epoll = ::epoll_create1(0);
  epoll_event wanted{.events = EPOLLIN | EPOLLET, .data = {.fd = 0}};
  ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, pipe.descriptor(), &wanted), 0);
  EventPipe::Unread unread;
  for (int i = 0; i < 3; ++i) {  // none of them read
    pipe.write({.kind = 0, .subject = 1}, unread);
    EXPECT_EQ(::epoll_wait(epoll, &wanted, 1, 0), 1);
    EXPECT_EQ(::epoll_wait(epoll, &wanted, 1, 0), 0);
  }
  ::close(epoll);
}

TEST_F(EventPipeTest, DoesNotWaitWhereTheProgramSaysSo) {
  make_non_blocking();
  const auto ignore = [](const PipeEvent&) {};
  EXPECT_EQ(pipe.read(ignore).error(), Errc::kTryAgain);
  pipe.write({.kind = 1, .subject = 1});
  EXPECT_TRUE(pipe.read(ignore));
  EXPECT_EQ(pipe.read(ignore).error(), Errc::kTryAgain);
}

TEST_F(EventPipeTest, WhatAProgramReadsByItselfDoesNotStopIt) {
  make_non_blocking();
  pipe.write({.kind = 1, .subject = 1});
  std::uint64_t octets;
  ASSERT_EQ(::read(pipe.descriptor(), &octets, sizeof octets), 8);
  std::uint64_t subject = 0;
  EXPECT_TRUE(pipe.read([&](const PipeEvent& event) { subject = event.subject; }));
  EXPECT_EQ(subject, 1U);
}

TEST_F(EventPipeTest, AChildNeitherWritesNorReadsItsParentsEvents) {
  pipe.write({.kind = 1, .subject = 1});
  const pid_t child = ::fork();
  if (child == 0) {
    pipe.write({.kind = 1, .subject = 2});
    pipe.forget(1);
    const bool is_refused = !pipe.read([](const PipeEvent&) {});
    ::_exit(is_refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(next(), 1U);
  EXPECT_FALSE(is_readable());
}

struct Reader {
  EventPipe* pipe = nullptr;
  std::atomic<int> taken{0};
};

/// Cancelled anywhere, a reader has taken an event as a whole or not at all, and leaves no lock.
TEST_F(EventPipeTest, ReadersCanBeCancelledAtAnyTime) {
  Reader reader{.pipe = &pipe};
  int written = 0;
  for (int round = 0; round < 300; ++round) {
    pthread_t thread;
    ASSERT_EQ(::pthread_create(
                  &thread, nullptr,
                  [](void* argument) -> void* {
                    test::expect_cancellation();
                    auto& self = *static_cast<Reader*>(argument);
                    for (;;) (void)self.pipe->read([&](const PipeEvent&) { ++self.taken; });
                  },
                  &reader),
              0);
    for (int i = 0; i < round % 20; ++i, ++written) pipe.write({.kind = 1, .subject = 1});
    ::pthread_cancel(thread);
    ASSERT_EQ(::pthread_join(thread, nullptr), 0);
  }
  int left = 0;
  while (next() != 0) ++left;
  EXPECT_EQ(reader.taken + left, written);
}

}  // namespace
}  // namespace verbatim::device
