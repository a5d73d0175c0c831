// SPDX-License-Identifier: Apache-2.0
#include "memory/atomics.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <thread>

namespace verbatim::memory {
namespace {

constexpr std::uint64_t kRounds = 100'000;

/// Eight octets between others that must not change.
struct Word {
  alignas(8) std::array<std::byte, 24> octets{};

  Word() { octets.fill(std::byte{0xee}); }
  explicit Word(std::uint64_t value) : Word() { std::memcpy(at(), &value, 8); }
  [[nodiscard]] std::byte* at() { return octets.data() + 8; }
  [[nodiscard]] std::uint64_t value() {
    std::uint64_t read = 0;
    std::memcpy(&read, at(), 8);
    return read;
  }
  [[nodiscard]] bool neighbours_are_untouched() const {
    for (const std::size_t i : {0U, 7U, 16U, 23U}) {
      if (octets[i] != std::byte{0xee}) return false;
    }
    return true;
  }
};

TEST(Atomics, FetchAddReturnsWhatWasThere) {
  Word word(5);
  EXPECT_EQ(fetch_add(word.at(), 3), 5U);
  EXPECT_EQ(word.value(), 8U);
  EXPECT_TRUE(word.neighbours_are_untouched());
}

TEST(Atomics, FetchAddWrapsAround) {
  Word word(std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(fetch_add(word.at(), 2), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(word.value(), 1U);
  EXPECT_EQ(fetch_add(word.at(), ~std::uint64_t{0}), 1U);
  EXPECT_EQ(word.value(), 0U);
  EXPECT_TRUE(word.neighbours_are_untouched());
}

TEST(Atomics, CompareSwapSwapsIfEqual) {
  Word word(5);
  EXPECT_EQ(compare_swap(word.at(), 5, 9), 5U);
  EXPECT_EQ(word.value(), 9U);
  EXPECT_TRUE(word.neighbours_are_untouched());
}

TEST(Atomics, CompareSwapLeavesAnotherValueAlone) {
  Word word(5);
  EXPECT_EQ(compare_swap(word.at(), 6, 9), 5U);
  EXPECT_EQ(word.value(), 5U);
}

TEST(Atomics, StoreEightStoresEight) {
  Word word(5);
  store_eight(word.at(), 0x0102'0304'0506'0708);
  EXPECT_EQ(word.value(), 0x0102'0304'0506'0708U);
  EXPECT_TRUE(word.neighbours_are_untouched());
}

TEST(Atomics, OnlyMultiplesOfEightAreAligned) {
  Word word;
  for (std::size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(is_aligned_for_atomics(word.octets.data() + i), i % 8 == 0) << i;
  }
}

TEST(Atomics, TwoThreadsAddingToOneWordLoseNothing) {
  Word word(0);
  std::uint64_t sums[2] = {0, 0};  // of the values that each thread saw before its additions
  const auto hammer = [&](std::uint64_t addend, std::uint64_t& sum) {
    for (std::uint64_t i = 0; i < kRounds; ++i) sum += fetch_add(word.at(), addend);
  };
  std::thread other([&] { hammer(1, sums[1]); });
  hammer(1, sums[0]);
  other.join();
  EXPECT_EQ(word.value(), 2 * kRounds);
  // Every value below the total was seen by exactly one of the two.
  EXPECT_EQ(sums[0] + sums[1], (2 * kRounds) * (2 * kRounds - 1) / 2);
}

TEST(Atomics, TwoThreadsSwappingOneWordTakeEachValueOnce) {
  Word word(0);
  const auto count_up = [&](std::uint64_t& successes) {
    while (successes < kRounds) {
      std::uint64_t seen = fetch_add(word.at(), 0);
      if (compare_swap(word.at(), seen, seen + 1) == seen) ++successes;
    }
  };
  std::uint64_t others = 0;
  std::uint64_t ours = 0;
  std::thread other([&] { count_up(others); });
  count_up(ours);
  other.join();
  EXPECT_EQ(word.value(), 2 * kRounds);
}

TEST(Atomics, AStoreIsNeverSeenInParts) {
  Word word(0);
  std::thread other([&] {
    for (std::uint64_t i = 0; i < kRounds; ++i) store_eight(word.at(), i % 2 == 0 ? 0 : ~0ULL);
  });
  std::uint64_t torn = 0;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const std::uint64_t seen = fetch_add(word.at(), 0);
    if (seen != 0 && seen != ~0ULL) ++torn;
  }
  other.join();
  EXPECT_EQ(torn, 0U);
}

}  // namespace
}  // namespace verbatim::memory
