// SPDX-License-Identifier: Apache-2.0
#include "base/mutex.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <thread>
#include <vector>

namespace verbatim {
namespace {

TEST(Mutex, IsHeldByOneThreadAtATime) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20'000;
  Mutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const LockGuard lock(mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kRounds);
}

TEST(Mutex, IsNotTakenAgainByTrying) {
  Mutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

/// Two threads pass a ball; each sleeps until it has the ball.
TEST(Changes, WakeTheThreadThatWaitsForThem) {
  constexpr int kRounds = 20'000;
  Mutex mutex;
  Changes changes;
  int ball = 0;
  const auto play = [&](int self) {
    for (int round = 0; round < kRounds; ++round) {
      mutex.lock();
      changes.wait(mutex, [&] { return ball % 2 == self; });
      ++ball;
      mutex.unlock();
      changes.notify_all();
    }
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  EXPECT_EQ(ball, 2 * kRounds);
}

TEST(Changes, WakeAllThreadsThatWait) {
  Mutex mutex;
  Changes changes;
  bool is_open = false;
  std::array<std::thread, 4> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      mutex.lock();
      changes.wait(mutex, [&] { return is_open; });
      mutex.unlock();
    });
  }
  {
    const LockGuard lock(mutex);
    is_open = true;
  }
  changes.notify_all();
  for (std::thread& thread : threads) thread.join();
}

TEST(Futex, KeepsErrno) {
  std::atomic<std::uint32_t> word{1};
  errno = 77;
  futex::wait(word, 0);
  futex::wake_all(word);
  EXPECT_EQ(errno, 77);
}

}  // namespace
}  // namespace verbatim
