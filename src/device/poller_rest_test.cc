// SPDX-License-Identifier: Apache-2.0
#include "device/poller_rest.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "device/clock.h"

namespace verbatim::device {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLong = 60s;  // a test that waits so long has failed

/// A thread that rests, the epoll of an engine, and a socket that both may wait for.
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
  void take() {
    char octet = 0;
    ASSERT_EQ(::recv(ends_[0], &octet, 1, 0), 1);
  }
  [[nodiscard]] bool engine_is_woken() {
    epoll_event event;
    return ::epoll_wait(engine_.number(), &event, 1, 0) == 1;
  }
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

TEST_F(PollerRestTest, KeepsPacketsFromTheEngine) {
  ASSERT_TRUE(rest_.begin(now()));
  send();
  EXPECT_FALSE(engine_is_woken());
  take();
  rest_.end(now());
  EXPECT_FALSE(engine_is_woken());
  send();
  EXPECT_TRUE(engine_is_woken());
}

TEST_F(PollerRestTest, LeavesTheRestToTheEngine) {
  ASSERT_TRUE(rest_.begin(now()));
  send();
  EXPECT_FALSE(engine_is_woken());
  rest_.end(now());
  EXPECT_TRUE(engine_is_woken());
}

TEST_F(PollerRestTest, DoesNotWakeAnEngineThatLeavesTheSocketsToCallers) {
  sockets_.wake_engine(false);
  ASSERT_TRUE(rest_.begin(now()));
  send();
  rest_.end(now());
  EXPECT_FALSE(engine_is_woken());
  sockets_.wake_engine(true);
  EXPECT_TRUE(engine_is_woken());
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

TEST_F(PollerRestTest, IsRefusedWhenTheProgramHasClosedTheDescriptors) {
  EXPECT_EXIT(
      {
        ::close_range(3, ~0U, 0);
        const bool begins = rest_.begin(now());
        ::_exit(begins ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace verbatim::device
