// SPDX-License-Identifier: Apache-2.0
#include "memory/key_entry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <thread>

namespace verbatim::memory {
namespace {

constexpr std::uint32_t kKey = 0x4207;

/// A filling in which every field contains the same number.
KeyEntry filling(std::uint32_t number) {
  return {.status = {.backing = Backing::kShared, .kind = KeyKind::kWindowType2B},
          .key = kKey,
          .domain = DomainId{number},
          .access = Access{number},
          .qp = number,
          .base = number,
          .octets = number,
          .local = number,
          .shared_at = number,
          .parent = number};
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
  EXPECT_EQ(copy.status.kind, KeyKind::kWindowType2B);
  EXPECT_EQ(copy.status.backing, Backing::kShared);
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

/// Reads while the owner changes the entry: before its load number `first_at` the next three steps
/// of the owner happen, before number `second_at` the three after those.
struct Interleaving {
  int first_at = 0;
  int second_at = 0;
  int steps_done = 0;  // before the reader begins
};

/// Whether the reader sees nothing, or one filling.
bool reads_one_filling(const Interleaving& order) {
  KeyEntry entry;
  int steps_done = 0;
  const auto owner_steps = [&](int count) {
    for (; count > 0; --count, ++steps_done) {
      if (steps_done % 3 == 0) withdraw(entry);
      if (steps_done % 3 == 1) fill(entry, filling(static_cast<std::uint32_t>(steps_done)));
      if (steps_done % 3 == 2) publish(entry);
    }
  };
  owner_steps(order.steps_done);
  int loads = 0;
  const auto load = [&](const auto& field) {
    if (loads == order.first_at) owner_steps(3);
    if (loads == order.second_at) owner_steps(3);
    ++loads;
    return load_field(field);
  };
  LiveEntry copy;
  return !read_live_through(load, entry, kKey, copy) || is_one_filling(copy);
}

TEST(KeyEntry, NoInterleavingOfReaderAndOwnerMixesTwoFillings) {
  // The key is the same each time, so it does not identify the filling. Nine loads.
  for (int steps_done = 0; steps_done < 6; ++steps_done) {
    for (int first_at = 0; first_at < 9; ++first_at) {
      for (int second_at = first_at; second_at <= 9; ++second_at) {
        EXPECT_TRUE(reads_one_filling({first_at, second_at, steps_done}))
            << steps_done << ' ' << first_at << ' ' << second_at;
      }
    }
  }
}

TEST(KeyEntry, AThreadThatReadsDuringChangesNeverMixesTwoFillings) {
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
  for (std::uint32_t number = 1; number <= 300'000; ++number) {
    withdraw(entry);
    fill(entry, filling(number));
    publish(entry);
    // Live for a while, so that the next change happens while a thread reads.
    for (std::uint32_t i = number % 16; i > 0; --i) (void)load_live(entry);
  }
  while (seen.load() == 0) std::this_thread::yield();
  done = true;
  reader.join();
  EXPECT_EQ(mixed.load(), 0U);
}

}  // namespace
}  // namespace verbatim::memory
