// SPDX-License-Identifier: Apache-2.0
#include "base/acquire.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace verbatim {
namespace {

enum class Small : std::uint8_t { kOne = 1, kLast = 0xff };

template <typename T>
void expect_loaded(T value) {
  const T held = value;
  EXPECT_TRUE(load_acquire(held) == value);
  if (kHasLdapr) {
    EXPECT_TRUE(load_acquire_with_ldapr(held) == value);
  }
}

TEST(LoadAcquire, LoadsEverySizeWhole) {
  expect_loaded<std::uint8_t>(0xf1);
  expect_loaded<std::uint16_t>(0xf1f2);
  expect_loaded<std::uint32_t>(0xf1f2'f3f4);
  expect_loaded<std::uint64_t>(0xf1f2'f3f4'f5f6'f7f8);
  expect_loaded(Small::kLast);
}

TEST(LoadAcquire, LoadsNoNeighbour) {
  const std::uint8_t octets[] = {0xaa, 0x01, 0xbb};
  EXPECT_EQ(load_acquire(octets[1]), 1U);
  const std::uint16_t halves[] = {0xaaaa, 0x0102, 0xbbbb};
  EXPECT_EQ(load_acquire(halves[1]), 0x0102U);
  const std::uint32_t words[] = {0xaaaa'aaaa, 0x0102'0304, 0xbbbb'bbbb};
  EXPECT_EQ(load_acquire(words[1]), 0x0102'0304U);
}

TEST(LoadAcquire, WhatWasStoredBeforeTheReleaseIsSeen) {
  constexpr std::uint64_t kRounds = 50'000;
  alignas(64) std::uint64_t flag = 0;
  alignas(64) std::uint64_t data = 0;
  std::thread writer([&] {
    for (std::uint64_t i = 1; i <= kRounds; ++i) {
      std::atomic_ref(data).store(i, std::memory_order_relaxed);
      std::atomic_ref(flag).store(i, std::memory_order_release);
    }
  });
  for (std::uint64_t seen = 0; seen < kRounds;) {
    seen = load_acquire(flag);
    ASSERT_GE(std::atomic_ref(data).load(std::memory_order_relaxed), seen);
    if (seen == 0) std::this_thread::yield();
  }
  writer.join();
}

}  // namespace
}  // namespace verbatim
