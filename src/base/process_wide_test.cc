// SPDX-License-Identifier: Apache-2.0
#include "base/process_wide.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace verbatim {
namespace {

struct Counted {
  explicit Counted(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
  ~Counted() { --alive_; }
  std::atomic<int>& alive_;
};

TEST(ProcessWide, IsMadeOnceAndStays) {
  static std::atomic<int> alive{0};
  const auto instance = []() -> Counted& {
    return process_wide([] { return new Counted(alive); });
  };
  EXPECT_EQ(&instance(), &instance());
  EXPECT_EQ(alive, 1);
}

TEST(ProcessWide, EachLambdaHasItsOwn) {
  auto& one = process_wide([] { return new int(1); });
  auto& other = process_wide([] { return new int(2); });
  EXPECT_EQ(one, 1);
  EXPECT_EQ(other, 2);
}

TEST(ProcessWide, ThreadsThatComeFirstTogetherGetTheSameOne) {
  static std::atomic<int> alive{0};
  static std::atomic<bool> begins{false};
  const auto instance = []() -> Counted& {
    return process_wide([] { return new Counted(alive); });
  };
  constexpr std::size_t kThreads = 4;
  std::vector<Counted*> seen(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      while (!begins) std::this_thread::yield();
      seen[i] = &instance();
    });
  }
  begins = true;
  for (std::thread& thread : threads) thread.join();
  for (const Counted* one : seen) EXPECT_EQ(one, seen[0]);
  EXPECT_EQ(alive, 1);
}

}  // namespace
}  // namespace verbatim
