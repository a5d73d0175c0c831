// SPDX-License-Identifier: Apache-2.0
// What becomes of memory that moves, seen by a program with one thread.
#include "rehome/rehoming.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/prng.h"
#include "rehome/test_moving.h"

namespace verbatim::rehome {
namespace {

using namespace std::chrono_literals;
using test::kMebi;
using test::kMuchLater;
using test::kStart;
using test::Memory;
using test::page;

class Rehomed : public test::Moving {};

TEST_P(Rehomed, KeepsContentsAndAddress) {
  const Memory memory(kMebi + 5 * page());
  memory.fill();
  const Placement placement = move_in(memory.range());
  EXPECT_EQ(placement.pages, memory.range());
  EXPECT_TRUE(memory.is_filled());
  EXPECT_GE(test::mappings_of_arena(), 1U);
  EXPECT_EQ(test::arena_octets(rehoming_), memory.octets());
  memory.fill(1);
  move_back(placement);
  EXPECT_TRUE(memory.is_filled(1));
}

TEST_P(Rehomed, LeavesNoTraceInTheMappings) {
  const Memory memory(4 * kMebi);
  memory.fill();
  const std::size_t before = test::mappings([](const Mapping&) { return true; });
  for (int round = 0; round < 3; ++round) {
    const Placement whole = move_in(memory.part(kMebi + 3 * page(), 2 * kMebi));
    const Placement part = move_in(memory.part(2 * kMebi, page()));
    move_back(whole);
    move_back(part);
  }
  EXPECT_EQ(test::mappings_in(memory.range()), 1U);
  EXPECT_EQ(test::mappings([](const Mapping&) { return true; }), before);
  EXPECT_TRUE(memory.is_filled());
}

TEST_P(Rehomed, GivesNoPagesToWhatWasNeverTouched) {
  const Memory memory(4 * kMebi);
  memory.data()[2 * kMebi + 17] = std::byte{9};
  const Placement placement = move_in(memory.range());
  EXPECT_EQ(test::arena_octets(rehoming_), page());
  EXPECT_EQ(memory.data()[2 * kMebi + 17], std::byte{9});
  memory.data()[3 * kMebi] = std::byte{7};
  EXPECT_EQ(memory.data()[3 * kMebi + 1], std::byte{0});
  move_back(placement);
  EXPECT_EQ(memory.data()[2 * kMebi + 17], std::byte{9});
  EXPECT_EQ(memory.data()[3 * kMebi], std::byte{7});
  EXPECT_EQ(memory.data()[0], std::byte{0});
}

TEST_P(Rehomed, MayBeReadOnly) {
  const Memory memory(kMebi);
  memory.fill();
  ASSERT_EQ(::mprotect(memory.data(), memory.octets(), PROT_READ), 0);
  const Placement placement = move_in(memory.range());
  EXPECT_TRUE(memory.is_filled());
  EXPECT_EQ(test::mappings([&](const Mapping& mapping) {
              return mapping.range.overlaps(memory.range()) && mapping.writable;
            }),
            0U);
  move_back(placement);
  EXPECT_TRUE(memory.is_filled());
  EXPECT_EQ(test::mappings([&](const Mapping& mapping) {
              return mapping.range.overlaps(memory.range()) && mapping.writable;
            }),
            0U);
}

TEST_P(Rehomed, KeepsTheProtectionThatTheProgramGivesItMeanwhile) {
  const Memory memory(4 * page());
  memory.fill();
  const Placement placement = move_in(memory.range());
  ASSERT_EQ(::mprotect(memory.data() + page(), page(), PROT_READ), 0);
  move_back(placement);
  EXPECT_TRUE(memory.is_filled());
  EXPECT_EQ(test::mappings([&](const Mapping& mapping) {
              return mapping.range == memory.part(page(), page()) && !mapping.writable;
            }),
            1U);
}

TEST_P(Rehomed, MayConsistOfSeveralMappings) {
  const Memory memory(kMebi + 9 * page());
  memory.fill();
  ASSERT_EQ(::mprotect(memory.data() + 9 * page(), 3 * page(), PROT_READ), 0);
  const Placement placement = move_in(memory.range());
  EXPECT_TRUE(memory.is_filled());
  ASSERT_EQ(::mprotect(memory.data() + 9 * page(), 3 * page(), PROT_READ | PROT_WRITE), 0);
  memory.fill(3);
  move_back(placement);
  EXPECT_TRUE(memory.is_filled(3));
}

TEST_P(Rehomed, MovesOnceForOverlappingRangesAndBackWithTheLast) {
  const Memory memory(16 * page());
  memory.fill();
  const Placement low = move_in(memory.part(0, 10 * page()));
  const Placement high = move_in(memory.part(6 * page(), 10 * page()));
  const Placement same = move_in(memory.part(6 * page(), 10 * page()));
  EXPECT_EQ(high.offset, low.offset + 6 * page());
  EXPECT_EQ(rehoming_.moved_octets(), memory.octets());
  move_back(high);
  EXPECT_EQ(rehoming_.moved_octets(), memory.octets());
  move_back(low);
  EXPECT_EQ(rehoming_.moved_octets(), 10 * page());
  EXPECT_EQ(test::arena_octets(rehoming_), 10 * page());
  EXPECT_TRUE(memory.is_filled());
  memory.fill(1);
  move_back(same);
  EXPECT_TRUE(memory.is_filled(1));
  EXPECT_EQ(test::mappings_in(memory.range()), 1U);
}

TEST_P(Rehomed, IsOneMappingWithItsNeighbours) {
  const Memory memory(64 * page());
  memory.fill();
  std::vector<Placement> placements;
  for (std::size_t i = 0; i < 64; i += 8) {
    placements.push_back(move_in(memory.part(i * page(), 8 * page())));
  }
  for (std::size_t i = 1; i < placements.size(); ++i) {
    EXPECT_EQ(placements[i].offset, placements[0].offset + i * 8 * page());
  }
  // Each range, and its last page, which keeps mremap(2) from enlarging it.
  EXPECT_LE(test::mappings_in(memory.range()), 2 * placements.size());
  const Placement all = move_in(memory.range());
  EXPECT_EQ(all.offset, placements[0].offset);
  for (const Placement& placement : placements) move_back(placement);
  EXPECT_TRUE(memory.is_filled());
  move_back(all);
}

TEST_P(Rehomed, AgreesWithAModelOverRandomRanges) {
  const Memory memory(256 * page());
  memory.fill();
  Prng prng(7);
  std::vector<Placement> live;
  for (int step = 0; step < test::rounds(150); ++step) {
    if (live.size() < 2 || prng.below(3) != 0) {
      const std::size_t begin = prng.below(250 * page());
      const std::size_t octets = 1 + prng.below(memory.octets() - begin);
      live.push_back(move_in(memory.part(begin, octets)));
    } else {
      const std::size_t index = prng.below(live.size());
      move_back(live[index]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
    }
    std::size_t covered = 0;
    for (std::size_t i = 0; i < 256; ++i) {
      covered += std::ranges::any_of(live, [&](const Placement& placement) {
        return placement.pages.covers(memory.part(i * page(), page()));
      });
    }
    ASSERT_EQ(rehoming_.moved_octets(), covered * page());
    ASSERT_EQ(test::arena_octets(rehoming_), covered * page());
    if (step % 10 == 0) {
      ASSERT_TRUE(memory.is_filled(static_cast<unsigned>(step / 10)));
      memory.fill(static_cast<unsigned>(step / 10 + 1));
    }
  }
  for (const Placement& placement : live) move_back(placement);
  EXPECT_EQ(test::mappings_in(memory.range()), 1U);
}

TEST_P(Rehomed, ReadsAsZeroesWhereTheProgramTouchesAfresh) {
  constexpr std::size_t kOctets = 4 * kMebi;  // from mmap(2), and back to it
  for (int round = 0; round < 3; ++round) {
    auto* memory = static_cast<std::byte*>(std::malloc(kOctets));
    std::memset(memory, 0xff, kOctets);
    const auto begin = std::bit_cast<std::uintptr_t>(memory);
    const Placement placement = move_in({.begin = begin, .end = begin + kOctets});
    if (round == 1) {  // freed while it is registered
      std::free(memory);
      move_back(placement);
    } else {
      move_back(placement);
      std::free(memory);
    }
    auto* zeroed = static_cast<std::byte*>(std::calloc(1, kOctets));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < kOctets; ++i) wrong += zeroed[i] != std::byte{0} ? 1U : 0U;
    EXPECT_EQ(wrong, 0U);
    std::free(zeroed);
  }
  const Memory memory(kMebi);
  memory.fill();
  move_back(move_in(memory.range()));
  ASSERT_EQ(::madvise(memory.data(), memory.octets(), MADV_DONTNEED), 0);
  EXPECT_TRUE(memory.is_zero());
  ASSERT_EQ(::madvise(memory.data(), memory.octets(), MADV_FREE), 0);
}

TEST_P(Rehomed, IsLeftAloneWhereTheProgramHasUnmappedIt) {
  const Memory memory(8 * page());
  memory.fill();
  const Placement placement = move_in(memory.range());
  ASSERT_EQ(::munmap(memory.data() + 2 * page(), 2 * page()), 0);
  ASSERT_EQ(::mmap(memory.data() + 5 * page(), page(), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            memory.data() + 5 * page());
  memory.data()[5 * page()] = std::byte{0x77};
  const std::byte before = memory.data()[4 * page() + 1];
  move_back(placement);
  EXPECT_EQ(memory.data()[5 * page()], std::byte{0x77});
  EXPECT_EQ(memory.data()[5 * page() + 1], std::byte{0});
  EXPECT_EQ(memory.data()[4 * page() + 1], before);
  EXPECT_EQ(test::mappings_in(memory.part(2 * page(), 2 * page())), 0U);
}

TEST_P(Rehomed, MovesBackToWhereTheProgramHasMovedIt) {
  const Memory memory(4 * page());
  const Memory elsewhere(4 * page());
  memory.fill();
  const Placement placement = move_in(memory.range());
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(::mremap(memory.data() + i * page(), page(), page(), MREMAP_MAYMOVE | MREMAP_FIXED,
                       elsewhere.data() + i * page()),
              elsewhere.data() + i * page());
  }
  EXPECT_TRUE(elsewhere.is_filled());
  elsewhere.fill(1);
  move_back(placement);
  EXPECT_TRUE(elsewhere.is_filled(1));
  EXPECT_EQ(test::mappings_in(memory.range()), 0U);
}

TEST_P(Rehomed, CannotBeEnlargedIntoTheMemoryOfOthers) {
  const Memory memory(16 * page());
  memory.fill();
  const Placement low = move_in(memory.part(0, 8 * page()));
  const Placement high = move_in(memory.part(8 * page(), 8 * page()));
  EXPECT_EQ(::mremap(memory.data(), 8 * page(), 16 * page(), MREMAP_MAYMOVE), MAP_FAILED);
  EXPECT_TRUE(memory.is_filled());
  move_back(low);
  move_back(high);
}

TEST_P(Rehomed, IsNotMovedWhereOtherMemoryHasTakenItsPlace) {
  const Memory memory(4 * page());
  memory.fill();
  const Placement placement = move_in(memory.range());
  ASSERT_EQ(::mmap(memory.data(), memory.octets(), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            memory.data());
  memory.fill(5);
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kReplaced));
  move_back(placement);
  EXPECT_TRUE(memory.is_filled(5));
  EXPECT_EQ(refusal(memory.range()), nullptr);
}

TEST_P(Rehomed, IsSharedWithWhoeverMapsTheArena) {
  const Memory memory(kMebi);
  memory.fill();
  const Placement placement = move_in(memory.range());
  const auto view = rehoming_.arena().take_view(placement.offset, placement.pages.octets());
  ASSERT_EQ(view.size(), memory.octets());
  EXPECT_EQ(std::memcmp(view.data(), memory.data(), view.size()), 0);
  view[12345] = std::byte{0xaa};
  EXPECT_EQ(memory.data()[12345], std::byte{0xaa});
  memory.data()[54321] = std::byte{0xbb};
  EXPECT_EQ(view[54321], std::byte{0xbb});
  ASSERT_EQ(::munmap(memory.data(), page()), 0);
  view[0] = std::byte{1};  // copies go on when the program has unmapped its memory
  move_back(placement);
  EXPECT_EQ(memory.data()[12345], std::byte{0xaa});
  rehoming_.arena().give_back(view);
}

TEST_P(Rehomed, IsOutOfReachOfLateStoresOnceOrphaned) {
  const Memory memory(4 * page());
  memory.fill();
  const Placement placement = move_in(memory.range());
  const auto peer = rehoming_.arena().take_view(placement.offset, placement.pages.octets());
  ASSERT_FALSE(peer.empty());
  rehoming_.orphan(placement, kMuchLater);
  std::memset(peer.data(), 0xee, peer.size());
  EXPECT_TRUE(memory.is_filled());
  EXPECT_STREQ(refusal(memory.part(page(), page())), to_text(Why::kQuarantined));
  rehoming_.arena().give_back(peer);
  rehoming_.release(placement.pages);
  EXPECT_EQ(refusal(memory.range()), nullptr);
  EXPECT_TRUE(memory.is_filled());
}

VB_WITH_EVERY_GUARD(Rehomed);

/// Moves a range in and back; nothing when it is refused.
Placement moved(Rehoming& rehoming, Range range, Instant in = kStart, Instant back = kMuchLater) {
  const auto placement = rehoming.move_in(range, in);
  EXPECT_TRUE(placement.ok()) << to_text(placement.error());
  if (!placement) return {};
  rehoming.move_back(*placement, back);
  return *placement;
}

TEST(Placement, LeavesPartialPagesOutUnlessToldOtherwise) {
  VB_SKIP_IF_NOTHING_MOVES();
  const Memory memory(8 * page());
  memory.fill();
  Rehoming automatic;
  const Placement inside = moved(automatic, memory.part(1, 4 * page()));
  EXPECT_EQ(inside.pages, memory.part(page(), 3 * page()));
  EXPECT_EQ(automatic.arena().address_of(inside.offset), inside.pages.begin);
  Rehoming always({.policy = Policy::kAlways});
  EXPECT_EQ(moved(always, memory.part(page() + 1, 4 * page())).pages,
            memory.part(page(), 5 * page()));
  EXPECT_TRUE(memory.is_filled());
}

TEST(Policy, NeverMovesNothing) {
  const Memory memory(kMebi);
  Rehoming never({.policy = Policy::kNever});
  EXPECT_EQ(never.move_in(memory.range(), kStart).error(), Why::kPolicy);
  EXPECT_EQ(never.arena().descriptor(), -1);
}

TEST(Policy, AutomaticMovesWhatHasAWholePage) {
  const Memory memory(4 * page());
  Rehoming automatic;
  EXPECT_EQ(automatic.move_in(memory.part(1, page()), kStart).error(), Why::kTooSmall);
  EXPECT_EQ(automatic.move_in(memory.part(0, 0), kStart).error(), Why::kTooSmall);
  EXPECT_EQ(automatic.move_in({.begin = 4096, .end = 1}, kStart).error(), Why::kTooSmall);
}

TEST(Policy, AutomaticLeavesAloneWhatWasGivenUpSoon) {
  VB_SKIP_IF_NOTHING_MOVES();
  const Memory memory(kMebi);
  Rehoming automatic;
  (void)moved(automatic, memory.range(), kStart, kStart + 10s);
  (void)moved(automatic, memory.range(), kStart + 11s, kStart + 11s + 1ms);
  EXPECT_EQ(automatic.move_in(memory.range(), kStart + 60s).error(), Why::kShortLived);
  EXPECT_EQ(automatic.move_in(memory.part(page(), page()), kStart + 60s).error(), Why::kShortLived);
  Rehoming always({.policy = Policy::kAlways});
  for (int round = 0; round < 3; ++round) (void)moved(always, memory.range(), kStart, kStart);
}

TEST(Policy, EveryReasonHasWords) {
  for (int why = 0; why <= static_cast<int>(Why::kRefused); ++why) {
    EXPECT_STRNE(to_text(static_cast<Why>(why)), "unknown");
  }
}

}  // namespace
}  // namespace verbatim::rehome
