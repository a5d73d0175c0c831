// SPDX-License-Identifier: Apache-2.0
#include "memory/key_entry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <thread>

namespace verbatim::memory {
namespace {

constexpr std::uint32_t kKey = 0x4207;

/// A filling in which every field tells the same number.
KeyEntry filling(std::uint32_t number) {
  return {.key = kKey,
          .domain = DomainId{number},
          .access = Access{number},
          .base = number,
          .octets = number,
          .local = number,
          .shared_at = number,
          .qp = number,
          .parent = number,
          .kind = KeyKind::kWindowType2B,
          .backing = Backing::kShared};
}

bool is_one_filling(const LiveEntry& copy) {
  const std::uint64_t number = copy.base;
  return copy.octets == number && copy.local == number && copy.shared_at == number &&
         copy.qp == number && static_cast<std::uint32_t>(copy.domain) == number &&
         static_cast<std::uint32_t>(copy.access) == number;
}

TEST(KeyEntry, AFreshEntryGrantsNothingToAnyKey) {
  const KeyEntry entry;
  LiveEntry copy;
  EXPECT_FALSE(read_live(entry, 0, copy));
  EXPECT_FALSE(read_live(entry, kKey, copy));
}

TEST(KeyEntry, WhatWasFilledIsReadOncePublished) {
  KeyEntry entry;
  LiveEntry copy;
  fill(entry, filling(7));
  EXPECT_FALSE(read_live(entry, kKey, copy));
  publish(entry);
  ASSERT_TRUE(read_live(entry, kKey, copy));
  EXPECT_EQ(copy.base, 7U);
  EXPECT_TRUE(is_one_filling(copy));
  EXPECT_EQ(copy.entry, &entry);
  EXPECT_EQ(copy.kind, KeyKind::kWindowType2B);
  EXPECT_EQ(copy.backing, Backing::kShared);
}

TEST(KeyEntry, AWithdrawnEntryGrantsNothing) {
  KeyEntry entry;
  LiveEntry copy;
  fill(entry, filling(7));
  publish(entry);
  withdraw(entry);
  EXPECT_FALSE(read_live(entry, kKey, copy));
  EXPECT_FALSE(read_live(entry, 0, copy));
}

TEST(KeyEntry, FillingLeavesTheWindowsOfARegionCounted) {
  KeyEntry entry;
  entry.bound = 3;
  fill(entry, filling(7));
  EXPECT_EQ(entry.bound, 3U);
}

TEST(KeyEntry, WhoeverReadsDuringAChangeNeverMixesTwoFillings) {
  // The same key each time: the reader cannot tell the fillings apart by it.
  KeyEntry entry;
  std::atomic<bool> done = false;
  std::atomic<std::uint64_t> mixed = 0;
  std::atomic<std::uint64_t> seen = 0;
  std::thread reader([&] {
    LiveEntry copy;
    while (!done.load()) {
      if (!read_live(entry, kKey, copy)) continue;
      seen.fetch_add(1);
      if (!is_one_filling(copy)) mixed.fetch_add(1);
    }
  });
  std::uint32_t number = 0;
  while (number < 100'000 || (seen.load() < 1000 && number < 1'000'000)) {
    fill(entry, filling(++number));
    publish(entry);
    withdraw(entry);
  }
  fill(entry, filling(number));
  publish(entry);
  while (seen.load() == 0) std::this_thread::yield();
  done = true;
  reader.join();
  EXPECT_EQ(mixed.load(), 0U);
}

}  // namespace
}  // namespace verbatim::memory
