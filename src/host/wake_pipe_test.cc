// SPDX-License-Identifier: Apache-2.0
#include "host/wake_pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace verbatim::host {
namespace {

/// Waits without limit: a thread that is never woken up makes the test time out.
bool wait(const WakePipe& pipe) {
  pollfd polled = pipe.polled();
  (void)::poll(&polled, 1, -1);
  return pipe.take(polled);
}

int writer_of(const WakePipe& pipe) { return pipe.polled().fd + 1; }

TEST(WakePipe, WakesTheThreadThatWaits) {
  WakePipe pipe;
  ASSERT_TRUE(pipe.open());
  std::thread ringer([&] { pipe.ring(); });
  EXPECT_TRUE(wait(pipe));
  ringer.join();
  pollfd polled = pipe.polled();
  EXPECT_EQ(::poll(&polled, 1, 0), 0);  // it was taken
}

TEST(WakePipe, TheThreadLearnsThatTheProgramHasClosedAll) {
  WakePipe pipe;
  ASSERT_TRUE(pipe.open());
  bool is_intact = true;
  std::thread waiter([&] { is_intact = wait(pipe); });
  ::close(pipe.polled().fd);
  ::close(writer_of(pipe));
  waiter.join();
  EXPECT_FALSE(is_intact);
}

TEST(WakePipe, WritesNothingIntoAFileOfTheProgram) {
  WakePipe pipe;
  ASSERT_TRUE(pipe.open());
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  ASSERT_EQ(::dup2(ends[1], writer_of(pipe)), writer_of(pipe));
  pipe.ring();
  char octet = 0;
  EXPECT_EQ(::recv(ends[0], &octet, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  ::close(writer_of(pipe));
  for (const int end : ends) ::close(end);
}

TEST(WakePipe, ReadsNothingFromAFileOfTheProgram) {
  WakePipe pipe;
  ASSERT_TRUE(pipe.open());
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  ASSERT_EQ(::dup2(ends[1], pipe.polled().fd), pipe.polled().fd);
  ASSERT_EQ(::send(ends[0], "x", 1, 0), 1);
  EXPECT_FALSE(wait(pipe));
  char octet = 0;
  EXPECT_EQ(::recv(ends[1], &octet, 1, MSG_DONTWAIT), 1);
  ::close(pipe.polled().fd);
  for (const int end : ends) ::close(end);
}

}  // namespace
}  // namespace verbatim::host
