// SPDX-License-Identifier: Apache-2.0
#include "device/block_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace verbatim::device {
namespace {

constexpr std::size_t kOctets = 5000;

/// Blocks of a pool, given back at the end.
class Holding {
 public:
  explicit Holding(BlockPool& pool) : pool_(pool) {}
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  ~Holding() { drop(blocks_.size()); }
  void take(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) blocks_.push_back(pool_.take());
  }
  void drop(std::size_t count) {
    for (; count > 0; --count, blocks_.pop_back()) pool_.give_back(blocks_.back());
  }
  [[nodiscard]] const std::vector<void*>& blocks() const { return blocks_; }

 private:
  BlockPool& pool_;
  std::vector<void*> blocks_;
};

TEST(BlockPool, BlocksAreApartAndAligned) {
  BlockPool pool(kOctets);
  Holding holding(pool);
  holding.take(2 * pool.blocks_per_chunk() + 1);
  std::uintptr_t last = 0;
  for (void* block : std::set<void*>(holding.blocks().begin(), holding.blocks().end())) {
    const auto at = reinterpret_cast<std::uintptr_t>(block);
    EXPECT_EQ(at % 64, 0U);
    EXPECT_GE(at - last, kOctets);
    last = at;
    std::memset(block, 0xff, kOctets);
  }
  EXPECT_EQ(pool.chunk_count(), 3U);
}

TEST(BlockPool, WhatIsGivenBackIsTakenAgain) {
  BlockPool pool(kOctets);
  Holding holding(pool);
  holding.take(pool.blocks_per_chunk());
  void* const first = holding.blocks().front();
  void* const last = holding.blocks().back();
  holding.drop(1);
  EXPECT_EQ(pool.take(), last);
  pool.give_back(first);
  EXPECT_EQ(pool.take(), first);
  EXPECT_EQ(pool.chunk_count(), 1U);
  pool.give_back(last);
}

TEST(BlockPool, EmptyChunksGoBackToTheSystemButForTheLast) {
  BlockPool pool(kOctets);
  Holding holding(pool);
  holding.take(3 * pool.blocks_per_chunk());
  EXPECT_EQ(pool.chunk_count(), 3U);
  holding.drop(pool.blocks_per_chunk());
  EXPECT_EQ(pool.chunk_count(), 2U);
  holding.drop(2 * pool.blocks_per_chunk());
  EXPECT_EQ(pool.chunk_count(), 1U);
  holding.take(1);
  EXPECT_EQ(pool.chunk_count(), 1U);
}

TEST(BlockPool, ManyThreads) {
  BlockPool pool(kOctets);
  std::vector<std::thread> threads;
  for (int number = 1; number <= 4; ++number) {
    threads.emplace_back([&pool, number] {
      Holding holding(pool);
      for (int round = 0; round < 20; ++round) {
        const std::size_t before = holding.blocks().size();
        holding.take(100);
        for (std::size_t i = before; i < holding.blocks().size(); ++i) {
          std::memset(holding.blocks()[i], number, kOctets);
        }
        for (const void* block : holding.blocks()) {
          const auto* octets = static_cast<const char*>(block);
          ASSERT_EQ(octets[0], number);
          ASSERT_EQ(octets[kOctets - 1], number);
        }
        holding.drop(60);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

/// Octets of huge pages in the mapping around `at`.
std::size_t huge_octets_at(const void* at) {
  std::ifstream smaps("/proc/self/smaps");
  bool is_there = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::size_t kibioctets = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2) {
      const auto address = reinterpret_cast<std::uintptr_t>(at);
      is_there = begin <= address && address < end;
    } else if (is_there && std::sscanf(line.c_str(), "AnonHugePages: %zu", &kibioctets) == 1) {
      return kibioctets << 10;
    }
  }
  return 0;
}

/// Whether the system can make a huge page of small ones.
bool can_collapse() {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  void* const room =
      mmap(nullptr, 2 * kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  std::memset(room, 1, 2 * kHuge);
  auto* const at = static_cast<std::byte*>(room);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(room) & (kHuge - 1);
  constexpr int kCollapse = 25;  // MADV_COLLAPSE
  const bool could = madvise(at + before, kHuge, kCollapse) == 0;
  munmap(room, 2 * kHuge);
  return could;
}

TEST(BlockPool, AFullChunkBecomesOneHugePage) {
  BlockPool pool(kOctets);
  Holding holding(pool);
  holding.take(pool.blocks_per_chunk() - 1);
  for (void* block : holding.blocks()) std::memset(block, 1, kOctets);
  holding.take(1);
  for (std::size_t i = 0; i + 1 < holding.blocks().size(); ++i) {
    const auto* octets = static_cast<const char*>(holding.blocks()[i]);
    ASSERT_EQ(octets[0] + octets[kOctets - 1], 2);
  }
  if (!can_collapse()) GTEST_SKIP() << "this system makes no huge pages of small ones";
  EXPECT_GE(huge_octets_at(holding.blocks().front()), std::size_t{2} << 20);
}

}  // namespace
}  // namespace verbatim::device
