// SPDX-License-Identifier: Apache-2.0
#include "device/socket_watch.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace verbatim::device {
namespace {

/// The epoll of an engine, and sockets that are watched.
class SocketWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends_.data()), 0);
    engine_ = host::OwnDescriptor(::epoll_create1(0));
    ASSERT_TRUE(watch_.open(engine_).ok());
    watch_.use(std::span(&ends_[0], 1));
  }
  void TearDown() override {
    watch_.close();
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

  std::array<int, 2> ends_{};
  host::OwnDescriptor engine_;
  SocketWatch watch_;
};

TEST_F(SocketWatchTest, WakesTheEngineAtFirst) {
  EXPECT_FALSE(engine_is_woken());
  send();
  EXPECT_TRUE(engine_is_woken());
}

TEST_F(SocketWatchTest, DoesNotWakeAnEngineThatLeavesTheSocketsToCallers) {
  watch_.wake_engine(false);
  send();
  EXPECT_FALSE(engine_is_woken());
  watch_.wake_engine(true);
  EXPECT_TRUE(engine_is_woken()) << "the packet is still there";
}

TEST_F(SocketWatchTest, LeavesPacketsToRestsUntilTheEngineTakesThemBack) {
  watch_.leave_to_rests();
  send();
  EXPECT_FALSE(engine_is_woken());
  take();
  send();
  EXPECT_FALSE(engine_is_woken()) << "also between two rests";
  watch_.take_back();
  EXPECT_TRUE(engine_is_woken());
}

TEST_F(SocketWatchTest, LeavesPacketsToRestsWhetherTheEngineWantsThemOrNot) {
  watch_.leave_to_rests();
  watch_.wake_engine(false);
  watch_.wake_engine(true);
  send();
  EXPECT_FALSE(engine_is_woken());
  watch_.take_back();
  EXPECT_TRUE(engine_is_woken());
}

TEST_F(SocketWatchTest, TakesNothingBackForAnEngineThatLeavesTheSocketsToCallers) {
  watch_.wake_engine(false);
  watch_.leave_to_rests();
  watch_.take_back();
  send();
  EXPECT_FALSE(engine_is_woken());
}

TEST_F(SocketWatchTest, ListsTheSockets) {
  std::array<pollfd, 2> room{};
  ASSERT_EQ(watch_.list(room), 1U);
  EXPECT_EQ(room[0].fd, ends_[0]);
  EXPECT_EQ(room[0].events, POLLIN);
}

TEST_F(SocketWatchTest, ListsWhatIsReadableWithThemIfThereIsNoRoomForThem) {
  watch_.use(ends_);
  std::array<pollfd, 1> room{};
  ASSERT_EQ(watch_.list(room), 1U);
  EXPECT_EQ(::poll(room.data(), 1, 0), 0);
  send();
  EXPECT_EQ(::poll(room.data(), 1, 0), 1);
}

}  // namespace
}  // namespace verbatim::device
