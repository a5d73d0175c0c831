// SPDX-License-Identifier: Apache-2.0
#include "device/block_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "host/huge_pages.h"
#include "host/test_huge_pages.h"

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
  holding.take(2 * pool.blocks_per_slab() + 1);
  std::uintptr_t last = 0;
  for (void* block : std::set<void*>(holding.blocks().begin(), holding.blocks().end())) {
    const auto at = reinterpret_cast<std::uintptr_t>(block);
    EXPECT_EQ(at % 64, 0U);
    EXPECT_GE(at - last, kOctets);
    last = at;
    std::memset(block, 0xff, kOctets);
  }
  EXPECT_EQ(pool.slab_count(), 3U);
}

TEST(BlockPool, WhatIsGivenBackIsTakenAgain) {
  BlockPool pool(kOctets);
  Holding holding(pool);
  holding.take(pool.blocks_per_slab());
  void* const first = holding.blocks().front();
  void* const last = holding.blocks().back();
  holding.drop(1);
  EXPECT_EQ(pool.take(), last);
  pool.give_back(first);
  EXPECT_EQ(pool.take(), first);
  EXPECT_EQ(pool.slab_count(), 1U);
  pool.give_back(last);
}

TEST(BlockPool, EmptySlabsGoBackToTheSystemButForTheLast) {
  BlockPool pool(kOctets);
  Holding holding(pool);
  holding.take(3 * pool.blocks_per_slab());
  EXPECT_EQ(pool.slab_count(), 3U);
  holding.drop(pool.blocks_per_slab());
  EXPECT_EQ(pool.slab_count(), 2U);
  holding.drop(2 * pool.blocks_per_slab());
  EXPECT_EQ(pool.slab_count(), 1U);
  holding.take(1);
  EXPECT_EQ(pool.slab_count(), 1U);
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

/// Whether the system can make a huge page of small ones.
bool can_gather() {
  std::byte* const at = host::map_aligned(host::kHugePageOctets, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (at == nullptr) return false;
  std::memset(at, 1, host::kHugePageOctets);
  const bool could = host::gather_pages(at);
  munmap(at, host::kHugePageOctets);
  return could;
}

TEST(BlockPool, AFullSlabBecomesOneHugePage) {
  BlockPool pool(kOctets);
  Holding holding(pool);
  holding.take(pool.blocks_per_slab() - 1);
  for (void* block : holding.blocks()) std::memset(block, 1, kOctets);
  holding.take(1);
  for (std::size_t i = 0; i + 1 < holding.blocks().size(); ++i) {
    const auto* octets = static_cast<const char*>(holding.blocks()[i]);
    ASSERT_EQ(octets[0] + octets[kOctets - 1], 2);
  }
  if (!can_gather()) GTEST_SKIP() << "this system makes no huge pages of small ones";
  EXPECT_GE(host::test::huge_octets_at(holding.blocks().front()), host::kHugePageOctets);
}

}  // namespace
}  // namespace verbatim::device
