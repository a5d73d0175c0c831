// SPDX-License-Identifier: Apache-2.0
#include "rehome/rehoming.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "rehome/test_memory.h"

namespace verbatim::rehome {
namespace {

using namespace std::chrono_literals;
using test::kMebi;
using test::Memory;
using test::page;

constexpr Instant kStart = Instant::at(0ms);
constexpr Instant kMuchLater = Instant::at(1h);

/// Every promise holds for every way to hold up other threads.
class Moving : public ::testing::TestWithParam<Guarding> {
 protected:
  void SetUp() override {
    Memory memory(page());
    Rehoming probe({.policy = Policy::kAlways, .guarding = GetParam()});
    const auto placement = probe.move_in(memory.range(), kStart);
    if (!placement && placement.error() == Why::kNoGuard) GTEST_SKIP() << "no userfaultfd";
    if (placement) probe.move_back(*placement, kMuchLater);
  }
  Rehoming rehoming_{{.policy = Policy::kAlways, .guarding = GetParam()}};
};

TEST_P(Moving, KeepsContentsAndAddress) {
  const Memory memory(3 * kMebi + 5 * page());
  memory.fill();
  const auto placement = rehoming_.move_in(memory.range(), kStart);
  ASSERT_TRUE(placement.ok()) << to_text(placement.error());
  EXPECT_EQ(placement->pages, memory.range());
  EXPECT_TRUE(memory.is_filled());
  EXPECT_GE(test::mappings_of_arena(), 1U);
  EXPECT_EQ(test::arena_octets(rehoming_), memory.octets());
  memory.fill(1);
  rehoming_.move_back(*placement, kMuchLater);
  EXPECT_TRUE(memory.is_filled(1));
  EXPECT_EQ(test::mappings_of_arena(), 0U);
  EXPECT_EQ(test::arena_octets(rehoming_), 0U);
  EXPECT_EQ(test::mappings_in(memory.range()), 1U);
}

TEST_P(Moving, GivesNoPagesToWhatWasNeverTouched) {
  const Memory memory(4 * kMebi);
  memory.data()[2 * kMebi + 17] = std::byte{9};
  const auto placement = rehoming_.move_in(memory.range(), kStart);
  ASSERT_TRUE(placement.ok()) << to_text(placement.error());
  EXPECT_EQ(test::arena_octets(rehoming_), page());
  EXPECT_EQ(memory.data()[2 * kMebi + 17], std::byte{9});
  memory.data()[3 * kMebi] = std::byte{7};
  EXPECT_EQ(memory.data()[3 * kMebi + 1], std::byte{0});
  rehoming_.move_back(*placement, kMuchLater);
  EXPECT_EQ(memory.data()[2 * kMebi + 17], std::byte{9});
  EXPECT_EQ(memory.data()[3 * kMebi], std::byte{7});
  EXPECT_EQ(memory.data()[0], std::byte{0});
}

TEST_P(Moving, IsSharedWithWhoeverMapsTheArena) {
  const Memory memory(kMebi);
  memory.fill();
  const auto placement = rehoming_.move_in(memory.range(), kStart);
  ASSERT_TRUE(placement.ok()) << to_text(placement.error());
  const auto view = rehoming_.arena().take_view(placement->offset, placement->pages.octets());
  ASSERT_EQ(view.size(), memory.octets());
  EXPECT_EQ(std::memcmp(view.data(), memory.data(), view.size()), 0);
  view[12345] = std::byte{0xaa};
  EXPECT_EQ(memory.data()[12345], std::byte{0xaa});
  memory.data()[54321] = std::byte{0xbb};
  EXPECT_EQ(view[54321], std::byte{0xbb});
  rehoming_.move_back(*placement, kMuchLater);
  EXPECT_EQ(memory.data()[12345], std::byte{0xaa});
  view[12345] = std::byte{0xcc};
  EXPECT_EQ(memory.data()[12345], std::byte{0xaa}) << "a late store reached the program";
  rehoming_.arena().give_back(view);
}

TEST_P(Moving, LosesNoStoreOfOtherThreads) {
  const Memory memory(2 * kMebi + 3 * page());
  constexpr std::size_t kThreads = 2;
  const std::size_t pages = memory.octets() / page();
  std::atomic<bool> stop = false;
  std::vector<std::vector<std::uint64_t>> stored(kThreads, std::vector<std::uint64_t>(pages));
  std::vector<std::thread> threads;
  const auto counter = [&](std::size_t thread, std::size_t index) {
    return std::bit_cast<volatile std::uint64_t*>(memory.data() + index * page() + thread * 8);
  };
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      Prng prng(thread);
      while (!stop.load(std::memory_order_relaxed)) {
        const std::size_t index = prng.below(pages);
        *counter(thread, index) = *counter(thread, index) + 1;
        ++stored[thread][index];
      }
    });
  }
  for (int round = 0; round < 100; ++round) {
    const auto placement = rehoming_.move_in(memory.range(), kStart);
    ASSERT_TRUE(placement.ok()) << to_text(placement.error());
    rehoming_.move_back(*placement, kMuchLater);
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    for (std::size_t i = 0; i < pages; ++i) ASSERT_EQ(*counter(thread, i), stored[thread][i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Guards, Moving,
                         ::testing::Values(Guarding::kBest, Guarding::kUserMode,
                                           Guarding::kBlocking));

}  // namespace
}  // namespace verbatim::rehome
