// SPDX-License-Identifier: Apache-2.0
// Memory that moves while other threads use it.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "rehome/rehoming.h"
#include "rehome/test_moving.h"

namespace verbatim::rehome {
namespace {

using test::kMebi;
using test::kMuchLater;
using test::kStart;
using test::Memory;
using test::page;

/// Threads that count in random pages of a memory, each with a counter of its own in each page, and
/// know what they have stored.
class Counters {
 public:
  Counters(const Memory& memory, std::size_t threads)
      : memory_(memory), pages_(memory.octets() / page()), stored_(threads) {
    for (std::size_t i = 0; i < threads; ++i) {
      stored_[i].resize(pages_);
      threads_.emplace_back([this, i] { count(i); });
    }
    while (running_ < threads) std::this_thread::yield();
  }
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;
  ~Counters() { stop(); }

  void stop() {
    stopped_ = true;
    for (auto& thread : threads_) thread.join();
    threads_.clear();
  }
  /// Stores that are not there, or that came out of nowhere.
  [[nodiscard]] std::size_t lost() const {
    std::size_t lost = 0;
    for (std::size_t i = 0; i < stored_.size(); ++i) {
      for (std::size_t p = 0; p < pages_; ++p) lost += *at(i, p) != stored_[i][p] ? 1U : 0U;
    }
    return lost;
  }
  [[nodiscard]] std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const auto& pages : stored_) {
      for (const std::uint64_t count : pages) sum += count;
    }
    return sum;
  }
  [[nodiscard]] std::size_t wrong_loads() const { return wrong_loads_; }

 private:
  [[nodiscard]] volatile std::uint64_t* at(std::size_t thread, std::size_t index) const {
    return std::bit_cast<volatile std::uint64_t*>(memory_.data() + index * page() + thread * 64);
  }
  void count(std::size_t thread) {
    Prng prng(thread + 1);
    *at(thread, 0) = ++stored_[thread][0];
    ++running_;
    while (!stopped_.load(std::memory_order_relaxed)) {
      const std::size_t index = prng.below(pages_);
      if (*at(thread, index) != stored_[thread][index]) ++wrong_loads_;
      *at(thread, index) = ++stored_[thread][index];
    }
  }

  const Memory& memory_;
  std::size_t pages_;
  std::atomic<bool> stopped_ = false;
  std::atomic<std::size_t> running_ = 0;  // threads that have stored
  std::atomic<std::size_t> wrong_loads_ = 0;
  std::vector<std::vector<std::uint64_t>> stored_;  // by thread and page
  std::vector<std::thread> threads_;
};

class RehomedUnderThreads : public test::Moving {
 protected:
  void move_often(const Memory& memory, int rounds) {
    Counters counters(memory, 2);
    for (int round = 0; round < test::rounds(rounds); ++round) {
      const auto placement = rehoming_.move_in(memory.range(), kStart);
      ASSERT_TRUE(placement.ok()) << to_text(placement.error());
      if (round % 4 == 0) std::this_thread::yield();
      rehoming_.move_back(*placement, kMuchLater);
    }
    counters.stop();
    EXPECT_EQ(counters.lost(), 0U);
    EXPECT_EQ(counters.wrong_loads(), 0U);
    EXPECT_GT(counters.total(), 0U);
  }
};

TEST_P(RehomedUnderThreads, LosesNoStoreInThousandsOfSmallMoves) {
  move_often(Memory(3 * page()), 700);
}

TEST_P(RehomedUnderThreads, LosesNoStoreInMovesOfSeveralPieces) {
  move_often(Memory(2 * kMebi + 3 * page()), 20);
}

TEST_P(RehomedUnderThreads, LosesNoStoreOfPagesThatComeToBeMeanwhile) {
  for (int round = 0; round < test::rounds(10); ++round) move_often(Memory(1024 * page()), 1);
}

TEST_P(RehomedUnderThreads, MovesInPartsFromManyThreads) {
  const Memory memory(64 * page());
  Counters counters(memory, 1);
  std::vector<std::thread> movers;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    movers.emplace_back([&, seed] {
      Prng prng(seed);
      for (int round = 0; round < test::rounds(100); ++round) {
        const std::size_t begin = prng.below(60);
        const std::size_t count = 1 + prng.below(64 - begin);
        const auto placement =
            rehoming_.move_in(memory.part(begin * page(), count * page()), kStart);
        ASSERT_TRUE(placement.ok()) << to_text(placement.error());
        rehoming_.move_back(*placement, kMuchLater);
      }
    });
  }
  for (auto& mover : movers) mover.join();
  counters.stop();
  EXPECT_EQ(counters.lost(), 0U);
}

/// A system call that stores into the memory waits if the system allows; else it may fail, and says
/// so, and stores nothing wrong.
TEST_P(RehomedUnderThreads, LosesNoStoreOfASystemCallThatSucceeds) {
  const Memory memory(64 * page());
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  std::atomic<bool> stopped = false;
  std::vector<std::uint64_t> stored(64);
  std::size_t refused = 0;
  std::thread reader([&] {
    Prng prng(3);
    for (std::uint64_t value = 1; !stopped; ++value) {
      const std::size_t index = prng.below(64);
      ASSERT_EQ(::write(pipe[1], &value, sizeof value), static_cast<ssize_t>(sizeof value));
      while (::read(pipe[0], memory.data() + index * page(), sizeof value) < 0) {
        ASSERT_EQ(errno, EFAULT);
        ++refused;
      }
      stored[index] = value;
    }
  });
  for (int round = 0; round < test::rounds(200); ++round) move_back(move_in(memory.range()));
  stopped = true;
  reader.join();
  for (std::size_t i = 0; i < 64; ++i) {
    std::uint64_t found = 0;
    std::memcpy(&found, memory.data() + i * page(), sizeof found);
    EXPECT_EQ(found, stored[i]);
  }
  if (GetParam() == Guarding::kBest && ::getuid() == 0) {
    EXPECT_EQ(refused, 0U);
  }
  ::close(pipe[0]);
  ::close(pipe[1]);
}

/// Signals that arrive while memory moves are handled afterwards: a handler that stores there would
/// wait for its own thread.
TEST_P(RehomedUnderThreads, IsNotHeldUpByAHandlerThatStoresThere) {
  static std::atomic<std::uint64_t*> target;
  static std::atomic<std::uint64_t> calls;
  const Memory memory(64 * page());
  target = std::bit_cast<std::uint64_t*>(memory.data());
  calls = 0;
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {
    for (std::size_t i = 0; i < 64; ++i) target.load()[i * 4096 / 8] += 1;
    ++calls;
  };
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> stopped = false;
  const pthread_t mover = ::pthread_self();
  std::thread sender([&] {
    while (!stopped) {
      ::pthread_kill(mover, SIGUSR1);
      std::this_thread::yield();
    }
  });
  for (int round = 0; round < test::rounds(100); ++round) move_back(move_in(memory.range()));
  stopped = true;
  sender.join();
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(target.load()[i * 4096 / 8], calls);
}

VB_WITH_EVERY_GUARD(RehomedUnderThreads);

TEST(OrdinaryUser, MovesMemoryUnderThreads) {
  VB_SKIP_IF_NOTHING_MOVES();
  const int ended = test::as_nobody([] {
    const Memory memory(kMebi + page());
    Rehoming rehoming;
    Counters counters(memory, 2);
    for (int round = 0; round < test::rounds(30); ++round) {
      const auto placement = rehoming.move_in(memory.range(), kStart);
      ASSERT_TRUE(placement.ok()) << to_text(placement.error());
      rehoming.move_back(*placement, kMuchLater);
    }
    counters.stop();
    EXPECT_EQ(counters.lost(), 0U);
    EXPECT_EQ(test::mappings_of_arena(), 0U);
  });
  EXPECT_EQ(ended, 0);
}

}  // namespace
}  // namespace verbatim::rehome
