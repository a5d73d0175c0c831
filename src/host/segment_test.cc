// SPDX-License-Identifier: Apache-2.0
#include "host/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "host/huge_pages.h"
#include "host/test_huge_pages.h"
#include "host/test_process.h"

namespace verbatim::host {
namespace {

constexpr std::size_t kMebi = std::size_t{1} << 20;

bool is_filled_with(std::span<const std::byte> block, std::byte value) {
  return std::all_of(block.begin(), block.end(), [&](std::byte octet) { return octet == value; });
}

void fill(std::span<std::byte> block, std::byte value) {
  std::memset(block.data(), std::to_integer<int>(value), block.size());
}

std::size_t resident_octets(const Segment& segment) {
  struct stat state {};
  EXPECT_EQ(::fstat(segment.descriptor(), &state), 0);
  return static_cast<std::size_t>(state.st_blocks) * 512;
}

/// Emulators of other processors ignore madvise(2), and return success.
bool is_advice_ignored() {
  constexpr std::size_t kPage = 64 * 1024;  // the largest page of any system
  void* at = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(at, MAP_FAILED);
  const std::span page(static_cast<std::byte*>(at), kPage);
  fill(page, std::byte{1});
  const bool is_ignored =
      ::madvise(at, kPage, MADV_REMOVE) == 0 && is_filled_with(page, std::byte{1});
  ::munmap(at, kPage);
  return is_ignored;
}

TEST(Segment, GivesZeroedAlignedBlocksOfTheSizeAsked) {
  Segment segment;
  ASSERT_TRUE(segment.open(4 * kMebi).ok());
  for (const std::size_t size : {1U, 7U, 63U, 64U, 65U, 100U, 4096U, 4097U, 1'000'000U}) {
    const auto block = segment.take(size);
    ASSERT_EQ(block.size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % 64, 0U);
    EXPECT_EQ(segment.offset_of(block.data()) % 64, 0U);
    EXPECT_TRUE(is_filled_with(block, std::byte{0}));
    fill(block, std::byte{0xff});
  }
}

TEST(Segment, ZeroesABlockThatWasUsedBefore) {
  if (is_advice_ignored()) GTEST_SKIP() << "the system says that it removed pages, and did not";
  Segment segment;
  ASSERT_TRUE(segment.open(64 * kMebi).ok());
  for (const std::size_t size : {1U, 64U, 200U, 5000U, 256U * 1024, 300'001U, 8'000'000U}) {
    const auto block = segment.take(size);
    ASSERT_EQ(block.size(), size);
    fill(block, std::byte{0xff});
    segment.give_back(block);
    const auto again = segment.take(size);
    ASSERT_EQ(again.data(), block.data()) << "the block is not reused";
    EXPECT_TRUE(is_filled_with(again, std::byte{0})) << size;
  }
}

TEST(Segment, ZeroesAlsoWhatAShorterUserLeftOfABlock) {
  Segment segment;
  ASSERT_TRUE(segment.open(kMebi).ok());
  const auto whole = segment.take(128);
  fill(whole, std::byte{0xff});
  segment.give_back(whole);
  const auto part = segment.take(65);
  ASSERT_EQ(part.data(), whole.data());
  segment.give_back(part);
  const auto again = segment.take(128);
  ASSERT_EQ(again.data(), whole.data());
  EXPECT_TRUE(is_filled_with(again, std::byte{0}));
}

TEST(Segment, SmallBlocksOfOneSizeSharePages) {
  constexpr std::size_t kPage = 4096;
  Segment segment;
  ASSERT_TRUE(segment.open(kMebi).ok());
  std::set<std::size_t> pages;
  for (int i = 0; i < 16; ++i) {
    const std::size_t at = segment.offset_of(segment.take(kPage / 4).data());
    pages.insert({at / kPage, (at + kPage / 4 - 1) / kPage});
    ASSERT_FALSE(segment.take(3 * kPage).empty());  // so that later blocks lie elsewhere
  }
  EXPECT_LE(pages.size(), 5U);
}

TEST(Segment, BlocksAreLittleLargerThanAsked) {
  Segment segment;
  ASSERT_TRUE(segment.open(64 * kMebi).ok());
  for (std::size_t octets = 5000; octets < kMebi; octets += octets / 3) {
    const auto first = segment.take(octets);
    const auto second = segment.take(octets);
    ASSERT_FALSE(second.empty());
    const auto distance = static_cast<std::size_t>(second.data() - first.data());
    EXPECT_GE(distance, octets);
    EXPECT_LE(distance, octets + octets / 8 + 64) << octets;
  }
}

TEST(Segment, ManySmallBlocksLieInHugePagesAndNoLargeOneDoes) {
  constexpr std::size_t kOctets = 33'000;
  Segment segment;
  ASSERT_TRUE(segment.open(64 * kMebi).ok());
  ASSERT_FALSE(segment.take(3 * kMebi).empty());
  std::vector<std::span<std::byte>> blocks;
  for (std::size_t taken = 0; taken < 8 * kMebi; taken += kOctets) {
    blocks.push_back(segment.take(kOctets));
    ASSERT_FALSE(blocks.back().empty());
    fill(blocks.back(), std::byte(blocks.size()));
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    ASSERT_TRUE(is_filled_with(blocks[i], std::byte(i + 1))) << i;
  }
  std::byte* const probe = map_aligned(kHugePageOctets, MAP_SHARED, segment.descriptor());
  ASSERT_NE(probe, nullptr);
  probe[0] = std::byte{0};  // a range without any page is not made huge
  const bool can_gather = gather_pages(probe);
  ::munmap(probe, kHugePageOctets);
  if (!can_gather) GTEST_SKIP() << "this system makes no huge pages of small ones";
  EXPECT_GE(test::huge_octets_at(blocks[0].data()), 4 * kMebi);
  EXPECT_LE(test::huge_octets_at(blocks[0].data()), 10 * kMebi);
}

TEST(Segment, HasNoRoomBeyondItsEnd) {
  Segment segment;
  ASSERT_TRUE(segment.open(4096).ok());
  EXPECT_TRUE(segment.take(0).empty());
  EXPECT_TRUE(segment.take(4097).empty());
  EXPECT_TRUE(segment.take(std::size_t{1} << 41).empty());
  EXPECT_TRUE(segment.take(~std::size_t{0}).empty());
  const auto half = segment.take(2048);
  EXPECT_EQ(half.size(), 2048U);
  EXPECT_TRUE(segment.take(2049).empty());
  EXPECT_EQ(segment.take(2048).size(), 2048U);
  EXPECT_TRUE(segment.take(1).empty());
  segment.give_back(half);
  EXPECT_EQ(segment.take(2000).data(), half.data());
}

TEST(Segment, HasNoRoomBeforeItIsOpen) {
  Segment segment;
  EXPECT_TRUE(segment.take(64).empty());
  segment.give_back({});
  EXPECT_EQ(segment.descriptor(), -1);
}

TEST(Segment, RefusesNothingAndASecondOpening) {
  Segment segment;
  EXPECT_EQ(segment.open(0).error(), Errc::kInvalidArgument);
  ASSERT_TRUE(segment.open(4096).ok());
  EXPECT_EQ(segment.open(4096).error(), Errc::kBusy);
}

TEST(Segment, RefusesWhatTheSystemCannotGive) {
  Segment segment;
  EXPECT_EQ(segment.open(std::size_t{1} << 62).error(), Errc::kNoMemory);
  EXPECT_EQ(segment.descriptor(), -1);
}

TEST(Segment, IsRefusedByTheFileSizeLimitInsteadOfKilled) {
  const int ended = test::in_a_child([] {
    const rlimit limit{.rlim_cur = 4096, .rlim_max = 4096};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    Segment segment;
    EXPECT_EQ(segment.open(8192).error(), Errc::kNoMemory);
    EXPECT_TRUE(segment.open(4096).ok());
  });
  EXPECT_EQ(ended, 0);
}

TEST(Segment, CannotBeShrunkUnderAPeer) {
  Segment segment;
  ASSERT_TRUE(segment.open(kMebi).ok());
  EXPECT_NE(::ftruncate(segment.descriptor(), 4096), 0);
  EXPECT_NE(::fcntl(segment.descriptor(), F_GET_SEALS) & F_SEAL_SHRINK, 0);
  EXPECT_NE(::fcntl(segment.descriptor(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Segment, IsSeenByAPeerAtTheSameOffsets) {
  Segment segment;
  ASSERT_TRUE(segment.open(kMebi).ok());
  (void)segment.take(1000);  // so that the offset is not zero
  const auto block = segment.take(64);
  void* mapping =
      ::mmap(nullptr, kMebi, PROT_READ | PROT_WRITE, MAP_SHARED, segment.descriptor(), 0);
  ASSERT_NE(mapping, MAP_FAILED);
  auto* peers = static_cast<std::byte*>(mapping) + segment.offset_of(block.data());
  ASSERT_NE(peers, block.data());
  block[3] = std::byte{42};
  EXPECT_EQ(peers[3], std::byte{42});
  peers[4] = std::byte{43};
  EXPECT_EQ(block[4], std::byte{43});
  ::munmap(mapping, kMebi);
}

TEST(Segment, CostsMemoryOnlyWhereItIsTouchedAndWhileItIsTaken) {
  if (is_advice_ignored()) GTEST_SKIP() << "the system says that it removed pages, and did not";
  Segment segment;
  ASSERT_TRUE(segment.open(std::size_t{16} << 30).ok());
  const auto block = segment.take(std::size_t{1} << 30);
  ASSERT_FALSE(block.empty());
  EXPECT_LT(resident_octets(segment), kMebi);
  fill(block.first(8 * kMebi), std::byte{1});
  EXPECT_GE(resident_octets(segment), 8 * kMebi);
  segment.give_back(block);
  EXPECT_LT(resident_octets(segment), kMebi);
  const auto again = segment.take(std::size_t{1} << 30);
  EXPECT_EQ(again.data(), block.data());
  EXPECT_LT(resident_octets(segment), kMebi);
}

TEST(Segment, SurvivesAPeerThatWritesIntoWhatWasGivenBack) {
  Segment segment;
  ASSERT_TRUE(segment.open(kMebi).ok());
  for (const std::byte value : {std::byte{0xff}, std::byte{0x41}, std::byte{0x01}}) {
    const auto first = segment.take(64);
    const auto second = segment.take(64);
    segment.give_back(second);
    segment.give_back(first);
    fill(first, value);
    EXPECT_EQ(segment.take(64).data(), first.data());
    const auto fresh = segment.take(64);
    ASSERT_EQ(fresh.size(), 64U);
    EXPECT_LE(segment.offset_of(fresh.data()), kMebi - 64);
    EXPECT_TRUE(is_filled_with(fresh, std::byte{0}));
  }
}

TEST(Segment, KeepsBlocksApartOverARandomHistory) {
  Segment segment;
  ASSERT_TRUE(segment.open(8 * kMebi).ok());
  Prng prng(0x5e61);
  std::map<std::byte*, std::span<std::byte>> taken;
  std::size_t refused = 0;
  for (int step = 0; step < 4000; ++step) {
    if (taken.empty() || prng.below(100) < 55) {
      const auto block = segment.take(1 + prng.below(std::uint64_t{1} << prng.below(17)));
      if (block.empty()) {
        ++refused;
        continue;
      }
      ASSERT_TRUE(is_filled_with(block, std::byte{0}));
      const auto next = taken.upper_bound(block.data());
      if (next != taken.end()) {
        ASSERT_LE(block.data() + block.size(), next->first);
      }
      if (next != taken.begin()) {
        const auto previous = std::prev(next)->second;
        ASSERT_LE(previous.data() + previous.size(), block.data());
      }
      fill(block, static_cast<std::byte>(1 + segment.offset_of(block.data()) / 64 % 255));
      taken.emplace(block.data(), block);
    } else {
      auto victim = taken.begin();
      std::advance(victim, static_cast<std::ptrdiff_t>(prng.below(taken.size())));
      const auto block = victim->second;
      ASSERT_TRUE(is_filled_with(
          block, static_cast<std::byte>(1 + segment.offset_of(block.data()) / 64 % 255)));
      segment.give_back(block);
      taken.erase(victim);
    }
  }
  EXPECT_GT(taken.size(), 0U);
  EXPECT_LT(refused, 2000U);
}

TEST(Segment, ServesManyThreads) {
  Segment segment;
  ASSERT_TRUE(segment.open(16 * kMebi).ok());
  std::vector<std::thread> threads;
  std::array<std::size_t, 4> spoiled{};
  for (std::size_t mine = 0; mine < spoiled.size(); ++mine) {
    threads.emplace_back([&, mine] {
      Prng prng(mine);
      for (int round = 0; round < 2000; ++round) {
        const auto block = segment.take(1 + prng.below(2000));
        if (!is_filled_with(block, std::byte{0})) ++spoiled[mine];
        fill(block, static_cast<std::byte>(mine + 1));
        if (!is_filled_with(block, static_cast<std::byte>(mine + 1))) ++spoiled[mine];
        segment.give_back(block);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const std::size_t count : spoiled) EXPECT_EQ(count, 0U);
}

TEST(Segment, LeavesNoDescriptorBehind) {
  const std::size_t before = test::open_descriptor_count();
  for (int i = 0; i < 50; ++i) {
    Segment segment;
    ASSERT_TRUE(segment.open(kMebi).ok());
    Segment refused;
    ASSERT_FALSE(refused.open(std::size_t{1} << 62).ok());
  }
  EXPECT_EQ(test::open_descriptor_count(), before);
}

}  // namespace
}  // namespace verbatim::host
