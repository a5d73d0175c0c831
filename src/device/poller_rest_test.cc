// SPDX-License-Identifier: Apache-2.0
#include "device/poller_rest.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "device/clock.h"

namespace verbatim::device {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLong = 60s;  // a test that waits so long has failed

/// A thread that rests, and a socket that it waits for.
class PollerRestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends_.data()), 0);
    engine_ = host::OwnDescriptor(::epoll_create1(0));
    ASSERT_TRUE(sockets_.open(engine_).ok());
    sockets_.use(std::span(&ends_[0], 1));
    rest_.open();
  }
  void TearDown() override {
    rest_.close();
    sockets_.close();
    for (const int end : ends_) ::close(end);
  }

  void send() { ASSERT_EQ(::send(ends_[1], "x", 1, 0), 1); }
  /// Runs `waker` when another thread rests, and returns whether it has woken that thread.
  template <typename Waker>
  bool wakes(Waker&& waker) {
    std::atomic<bool> was_woken{false};
    std::thread thread([&] {
      if (!rest_.begin(now())) return;
      was_woken = rest_.wait(kLong);
      rest_.end(now());
    });
    while (!rest_.is_resting()) std::this_thread::yield();
    waker();
    thread.join();
    return was_woken;
  }

  std::array<int, 2> ends_{};
  host::OwnDescriptor engine_;
  SocketWatch sockets_;
  PollerRest rest_{sockets_};
};

TEST_F(PollerRestTest, EndsWithAPacket) {
  EXPECT_TRUE(wakes([this] { send(); }));
}

TEST_F(PollerRestTest, EndsAtACall) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(wakes([this] { rest_.wake(); }));
  }
}

TEST_F(PollerRestTest, EndsInVainWhenItIsCalledOff) {
  EXPECT_FALSE(wakes([this] { rest_.call_off(); }));
  EXPECT_TRUE(wakes([this] { rest_.wake(); })) << "the next one is not";
}

TEST_F(PollerRestTest, DoesNotEndInVainIfThereIsAPacketWhenItIsCalledOff) {
  ASSERT_TRUE(rest_.begin(now()));
  send();
  rest_.call_off();
  EXPECT_TRUE(rest_.wait(kLong));
  rest_.end(now());
}

TEST_F(PollerRestTest, IsLongAfterAWhile) {
  const Instant begin = now();
  EXPECT_FALSE(rest_.is_long(begin + 1h)) << "no thread rests";
  ASSERT_TRUE(rest_.begin(begin));
  EXPECT_FALSE(rest_.is_long(begin));
  EXPECT_TRUE(rest_.is_long(begin + 1s));
  rest_.end(now());
  EXPECT_FALSE(rest_.is_long(begin + 1s));
}

TEST_F(PollerRestTest, EndsWhenTheTimeHasPassed) {
  ASSERT_TRUE(rest_.begin(now()));
  EXPECT_FALSE(rest_.wait(1ms));
  rest_.end(now());
  EXPECT_FALSE(rest_.is_resting());
}

TEST_F(PollerRestTest, FindsPacketsThatCameBefore) {
  send();
  ASSERT_TRUE(rest_.begin(now()));
  EXPECT_TRUE(rest_.wait(kLong));
  rest_.end(now());
}

TEST_F(PollerRestTest, IsForOneThread) {
  ASSERT_TRUE(rest_.begin(now()));
  std::thread([this] { EXPECT_FALSE(rest_.begin(now())); }).join();
  rest_.end(now());
  EXPECT_TRUE(rest_.begin(now()));
  rest_.end(now());
}

TEST_F(PollerRestTest, EndsWithAPacketAtOneOfManySockets) {
  std::array<std::array<int, 2>, 20> pairs{};
  std::vector<int> readers;
  for (auto& pair : pairs) {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair.data()), 0);
    readers.push_back(pair[0]);
  }
  sockets_.use(readers);
  EXPECT_TRUE(wakes([&] { ASSERT_EQ(::send(pairs.back()[1], "x", 1, 0), 1); }));
  for (const auto& pair : pairs) {
    for (const int end : pair) ::close(end);
  }
}

TEST_F(PollerRestTest, IsForNothingWhenASocketIsClosed) {
  const int closed = ::dup(ends_[0]);
  sockets_.use(std::span(&closed, 1));
  ::close(closed);
  ASSERT_TRUE(rest_.begin(now()));
  EXPECT_FALSE(rest_.wait(kLong));
  rest_.end(now());
}

TEST_F(PollerRestTest, LeavesNoCallBehind) {
  rest_.wake();
  ASSERT_TRUE(rest_.begin(now()));
  EXPECT_TRUE(rest_.wait(kLong)) << "a call from before the rest ends it";
  EXPECT_FALSE(rest_.wait(1ms));
  rest_.end(now());
}

TEST_F(PollerRestTest, IsNotedAsLostWhenItsThreadHasGone) {
  std::thread([this] { ASSERT_TRUE(rest_.begin(now())); }).join();
  EXPECT_FALSE(rest_.is_lost(now()));
  EXPECT_TRUE(rest_.is_lost(now() + 10s));
  rest_.end(now());
  EXPECT_TRUE(rest_.begin(now()));
  rest_.end(now());
}

TEST_F(PollerRestTest, IsOverInAForkedChild) {
  ASSERT_TRUE(rest_.begin(now()));
  rest_.forget_in_child();
  EXPECT_FALSE(rest_.is_resting());
  EXPECT_FALSE(rest_.begin(now()));
}

TEST_F(PollerRestTest, EndsWhenTheProgramHasClosedTheDescriptors) {
  EXPECT_EXIT(
      {
        ::close_range(3, ~0U, 0);
        const bool was_woken = rest_.begin(now()) && rest_.wait(kLong);
        ::_exit(was_woken ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(PollerRestTest, ReadsNothingFromAFileOfTheProgramThatHasItsNumbers) {
  const auto replace_and_rest = [this] {
    int pipe[2];
    if (::pipe(pipe) != 0 || ::write(pipe[1], "program", 7) != 7) return false;
    for (int number = 3; number < 4096; ++number) {
      const bool is_pipe = number == pipe[0] || number == pipe[1];
      if (!is_pipe && ::fcntl(number, F_GETFD) >= 0) ::dup2(pipe[0], number);
    }
    if (!rest_.begin(now()) || !rest_.wait(kLong)) return false;
    char text[8];
    return ::read(pipe[0], text, sizeof text) == 7;
  };
  EXPECT_EXIT(::_exit(replace_and_rest() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace verbatim::device
