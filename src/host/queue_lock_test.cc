// SPDX-License-Identifier: Apache-2.0
#include "host/queue_lock.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "host/test_process.h"

namespace verbatim::host {
namespace {

/// The data under the lock: plain memory in which one lost or torn update shows.
struct Guarded {
  QueueLock lock;
  alignas(64) std::array<std::uint64_t, 16> words{};

  /// With the lock held. False when another thread holds it as well, or its stores came late.
  bool update() {
    const std::uint64_t first = words[0];
    bool whole = true;
    for (auto& word : words) {
      whole = whole && word == first;
      ++word;
    }
    return whole;
  }
};

TEST(QueueLock, IsUsedByOneThreadOftenAndByAnotherSometimes) {
  Guarded guarded;
  std::atomic<bool> done = false;
  std::uint64_t favoured = 0;
  std::uint64_t looks = 0;
  std::atomic<std::uint64_t> torn = 0;
  constexpr std::uint64_t kTakes = 500'000;
  std::thread engine([&] {
    for (std::uint64_t i = 0; !done.load(std::memory_order_relaxed); ++i) {
      if (i % 2 == 0) {
        guarded.lock.lock();
      } else if (!guarded.lock.try_lock()) {
        continue;
      }
      if (!guarded.update()) ++torn;
      ++looks;
      guarded.lock.unlock();
      for (int spin = 0; spin < 2'000; ++spin) compiler_barrier();
    }
  });
  for (std::uint64_t i = 0; i < kTakes; ++i) {
    const std::lock_guard guard(guarded.lock);
    if (guarded.lock.favours_me()) ++favoured;
    if (!guarded.update()) ++torn;
  }
  done.store(true, std::memory_order_relaxed);
  engine.join();
  EXPECT_EQ(torn, 0U);
  EXPECT_EQ(guarded.words[0], kTakes + looks);
  EXPECT_GT(looks, 0U);
  EXPECT_GT(favoured, 0U) << "the bias never came back: only half of the lock was tested";
}

TEST(QueueLock, TheBiasMovesToTheThreadThatUsesItMostly) {
  Guarded guarded;
  std::atomic<std::uint64_t> torn = 0;
  constexpr std::uint64_t kThreads = 6, kRuns = 200, kRun = 150;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t run = 0; run < kRuns; ++run) {
        for (std::uint64_t i = 0; i < kRun; ++i) {
          const std::lock_guard guard(guarded.lock);
          if (!guarded.update()) ++torn;
        }
        std::this_thread::yield();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(torn, 0U);
  EXPECT_EQ(guarded.words[0], kThreads * kRuns * kRun);
}

TEST(QueueLock, AThreadThatSleepsForItIsWoken) {
  QueueLock lock;
  lock.lock();
  std::atomic<bool> in = false;
  std::thread other([&] {
    const std::lock_guard guard(lock);
    in = true;
  });
  for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
  EXPECT_FALSE(in);
  lock.unlock();
  other.join();
  EXPECT_TRUE(in);
}

TEST(QueueLock, AForkedChildUnlocksWhatItsThreadHasAndResetsTheRest) {
  QueueLock mine;
  QueueLock anothers;
  for (std::uint32_t i = 0; i < QueueLock::kStreak; ++i) const std::lock_guard guard(mine);
  std::atomic<int> stage = 0;
  std::thread other([&] {
    for (std::uint32_t i = 0; i < QueueLock::kStreak; ++i) const std::lock_guard guard(anothers);
    anothers.lock();
    stage = 1;
    while (stage != 2) std::this_thread::yield();
    anothers.unlock();
  });
  while (stage != 1) std::this_thread::yield();
  mine.lock();
  EXPECT_EQ(test::in_a_child([&] {
              mine.unlock();
              mine.lock();
              mine.unlock();
              EXPECT_FALSE(anothers.try_lock());
              anothers.reset();
              EXPECT_TRUE(anothers.try_lock());
              anothers.unlock();
            }),
            0);
  mine.unlock();
  stage = 2;
  other.join();
}

}  // namespace
}  // namespace verbatim::host
