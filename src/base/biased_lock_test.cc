// SPDX-License-Identifier: Apache-2.0
#include "base/biased_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace verbatim {
namespace {

/// Counts the calls. Its barrier does nothing, which is enough for locks that fence themselves, and
/// while no two threads use the lock at once.
struct CountingSystem {
  static inline std::atomic<int> barriers = 0;
  static inline std::atomic<bool> biases = true;
  static bool can_bias() noexcept { return biases; }
  static void barrier() noexcept { ++barriers; }
  static void wait(std::atomic<std::uint32_t>&, std::uint32_t) noexcept {
    std::this_thread::yield();
  }
  static void wake_one(std::atomic<std::uint32_t>&) noexcept {}
  static void relax(std::uint32_t) noexcept { std::this_thread::yield(); }
};

using FastLock = BiasedLock<CountingSystem>;
using FencedLock = BiasedLock<CountingSystem, Fencing::kFenced>;

template <typename Lock>
class BiasedLockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CountingSystem::barriers = 0;
    CountingSystem::biases = true;
  }
  void take(std::uint32_t times) {
    for (std::uint32_t i = 0; i < times; ++i) const std::lock_guard guard(lock_);
  }
  template <typename Body>
  static void elsewhere(Body&& body) {
    std::thread(body).join();
  }

  Lock lock_;
};
using Variants = ::testing::Types<FastLock, FencedLock>;
TYPED_TEST_SUITE(BiasedLockTest, Variants);

TYPED_TEST(BiasedLockTest, FavoursAThreadThatTookItOftenInARow) {
  this->take(TypeParam::kStreak - 1);
  EXPECT_FALSE(this->lock_.favours_me());
  this->take(1);
  EXPECT_TRUE(this->lock_.favours_me());
  this->take(10);
  EXPECT_TRUE(this->lock_.favours_me());
  this->elsewhere([&] { EXPECT_FALSE(this->lock_.favours_me()); });
}

TYPED_TEST(BiasedLockTest, TurnsDoNotMakeAStreak) {
  for (std::uint32_t i = 0; i < 3; ++i) {
    this->take(TypeParam::kStreak - 1);
    this->elsewhere([&] { this->take(1); });
  }
  EXPECT_FALSE(this->lock_.favours_me());
}

TYPED_TEST(BiasedLockTest, FavoursNoThreadWhereTheSystemHasNoBarrier) {
  if (std::is_same_v<TypeParam, FencedLock> || kBestFencing == Fencing::kFenced) {
    GTEST_SKIP() << "a lock with fences of its own needs no barrier";
  }
  CountingSystem::biases = false;
  this->take(3 * TypeParam::kStreak);
  EXPECT_FALSE(this->lock_.favours_me());
  this->elsewhere([&] { this->take(3); });
  EXPECT_EQ(CountingSystem::barriers, 0);
}

TYPED_TEST(BiasedLockTest, TheFavouredThreadKeepsOthersOut) {
  this->take(TypeParam::kStreak);
  this->lock_.lock();
  this->elsewhere([&] { EXPECT_FALSE(this->lock_.try_lock()); });
  EXPECT_TRUE(this->lock_.favours_me()) << "a try that fails takes no bias away";
  this->lock_.unlock();
  this->elsewhere([&] {
    ASSERT_TRUE(this->lock_.try_lock());
    this->lock_.unlock();
  });
  EXPECT_FALSE(this->lock_.favours_me());
}

TYPED_TEST(BiasedLockTest, TheThreadThatWonTheBiasWhileHoldingItKeepsOthersOut) {
  this->take(TypeParam::kStreak - 1);
  this->lock_.lock();
  EXPECT_TRUE(this->lock_.favours_me());
  this->elsewhere([&] { EXPECT_FALSE(this->lock_.try_lock()); });
  this->lock_.unlock();
  this->elsewhere([&] {
    EXPECT_TRUE(this->lock_.try_lock());
    this->lock_.unlock();
  });
}

// A signal handler asks before it waits.
TYPED_TEST(BiasedLockTest, TellsAThreadThatHasItFromOthers) {
  const auto is_held_elsewhere = [&] {
    bool is_held = true;
    this->elsewhere([&] { is_held = this->lock_.is_held_by_me(); });
    return is_held;
  };
  for (const bool is_favoured : {false, true}) {
    if (is_favoured) this->take(TypeParam::kStreak);
    ASSERT_EQ(this->lock_.favours_me(), is_favoured);
    EXPECT_FALSE(this->lock_.is_held_by_me());
    this->lock_.lock();
    EXPECT_TRUE(this->lock_.is_held_by_me());
    EXPECT_FALSE(is_held_elsewhere());
    this->lock_.unlock();
    EXPECT_FALSE(this->lock_.is_held_by_me());
  }
}

// A thread that waits for the lock does not hold it.
TYPED_TEST(BiasedLockTest, IsNotHeldByAThreadThatWaits) {
  this->lock_.lock();
  std::atomic<bool> is_over = false;
  std::thread waits([&] {
    this->lock_.lock();
    EXPECT_TRUE(this->lock_.is_held_by_me());
    this->lock_.unlock();
    is_over = true;
  });
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(this->lock_.is_held_by_me());
    std::this_thread::yield();
  }
  EXPECT_FALSE(is_over);
  this->lock_.unlock();
  waits.join();
  EXPECT_FALSE(this->lock_.is_held_by_me());
}

// As a signal handler that interrupts the holder does.
TYPED_TEST(BiasedLockTest, TheThreadThatHasItCannotTakeItAgain) {
  this->lock_.lock();
  EXPECT_FALSE(this->lock_.try_lock());
  this->lock_.unlock();
  this->take(TypeParam::kStreak);
  ASSERT_TRUE(this->lock_.favours_me());
  this->lock_.lock();
  EXPECT_FALSE(this->lock_.try_lock());
  this->elsewhere([&] { EXPECT_FALSE(this->lock_.try_lock()); });
  this->lock_.unlock();
  EXPECT_TRUE(this->lock_.try_lock());
  this->lock_.unlock();
}

TYPED_TEST(BiasedLockTest, AnyThreadKeepsOthersOut) {
  ASSERT_TRUE(this->lock_.try_lock());
  this->elsewhere([&] { EXPECT_FALSE(this->lock_.try_lock()); });
  this->lock_.unlock();
  this->take(TypeParam::kStreak);
  this->elsewhere([&] {
    this->lock_.lock();
    std::thread([&] { EXPECT_FALSE(this->lock_.try_lock()); }).join();
    this->lock_.unlock();
  });
}

TYPED_TEST(BiasedLockTest, TakingTheBiasAwayCallsTheBarrierBeforeAndAfter) {
  if (std::is_same_v<TypeParam, FencedLock> || kBestFencing == Fencing::kFenced) {
    GTEST_SKIP() << "a lock with fences of its own needs no barrier";
  }
  this->take(2 * TypeParam::kStreak);
  EXPECT_EQ(CountingSystem::barriers, 0) << "the favoured thread pays nothing";
  this->elsewhere([&] { this->take(1); });
  EXPECT_EQ(CountingSystem::barriers, 2);
  this->elsewhere([&] { this->take(1); });
  EXPECT_EQ(CountingSystem::barriers, 2) << "there was no bias left";
}

TYPED_TEST(BiasedLockTest, OnlySomeThreadsAreEverFavouredAndEachComesBackToItsSeat) {
  // All threads exist at once: a token is only reused after its thread has ended.
  std::vector<std::thread> threads;
  std::atomic<std::uint32_t> turn = 0;
  std::atomic<std::uint32_t> favoured = 0;
  constexpr std::uint32_t kThreads = TypeParam::kSeats + 2;
  for (std::uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (std::uint32_t round = 0; round < 2; ++round) {
        while (turn != round * kThreads + i) std::this_thread::yield();
        this->take(TypeParam::kStreak);
        if (this->lock_.favours_me()) ++favoured;
        ++turn;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(favoured, 2 * TypeParam::kSeats);
}

TYPED_TEST(BiasedLockTest, IsFreeForTheOnlyThreadAfterAReset) {
  this->take(TypeParam::kStreak);
  this->elsewhere([&] { this->lock_.lock(); });  // a thread that does not exist in a forked child
  EXPECT_FALSE(this->lock_.try_lock());
  this->lock_.reset();
  ASSERT_TRUE(this->lock_.try_lock());
  this->lock_.unlock();
  this->take(TypeParam::kStreak);
  EXPECT_TRUE(this->lock_.favours_me());
}

// Real threads, with fences of their own, so that the thread sanitizer can check them.
TEST(BiasedLockThreads, OneThreadAtATimeIsIn) {
  FencedLock lock;
  std::uint64_t sum = 0;  // plain, so a lost update shows
  constexpr std::uint64_t kTakes = 20'000;
  std::atomic<std::uint64_t> taken = 0;
  const auto often = [&] {
    for (std::uint64_t i = 0; i < kTakes; ++i) {
      const std::lock_guard guard(lock);
      ++sum;
    }
    taken += kTakes;
  };
  const auto seldom = [&] {
    while (taken < kTakes) {
      if (lock.try_lock()) {
        ++sum;
        lock.unlock();
        ++taken;
      }
      std::this_thread::yield();
    }
  };
  std::thread first(often);
  std::thread second(seldom);
  first.join();
  second.join();
  EXPECT_EQ(sum, taken);
}

TEST(BiasedLockThreads, ManyThreadsShareIt) {
  FencedLock lock;
  std::uint64_t sum = 0;
  constexpr std::uint64_t kThreads = 4, kRuns = 40, kRun = 200;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t run = 0; run < kRuns; ++run) {
        for (std::uint64_t i = 0; i < kRun; ++i) {
          const std::lock_guard guard(lock);
          ++sum;
        }
        std::this_thread::yield();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum, kThreads * kRuns * kRun);
}

}  // namespace
}  // namespace verbatim
