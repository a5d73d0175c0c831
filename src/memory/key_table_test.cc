// SPDX-License-Identifier: Apache-2.0
#include "memory/key_table.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <set>
#include <string>

#include "base/pointer.h"
#include "memory/test_memory.h"

namespace verbatim::memory {
namespace {

constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
constexpr auto kHome = TestMemory::kHome;
constexpr auto kAbroad = TestMemory::kAbroad;
constexpr auto kQp = TestMemory::kQp;
constexpr auto kOtherQp = TestMemory::kOtherQp;
constexpr auto kEverything = TestMemory::kEverything;

class KeyTableTest : public testing::Test {
 protected:
  Refusal remote(const KeyTable::Want& want) const {
    return refusal_of(memory_.table().check_remote(want));
  }
  Refusal local(const KeyTable::Want& want) const {
    return refusal_of(memory_.table().check_local(want));
  }
  Refusal whole(const KeyTable::Want& want) const {
    return refusal_of(memory_.table().check_whole(want));
  }

  /// A window over all of a region of its own, with every right that a window can have.
  wire::MemoryKey bound_window(KeyKind kind) {
    const auto window = memory_.window(kind);
    const BindRequest request{
        .window_key = window,
        .new_key = KeyRegistry::next_key(window),
        .region_key = memory_.region(kEverything),
        .address = memory_.start(),
        .octets = TestMemory::kOctets,
        .access = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic};
    const auto bind = kind == KeyKind::kWindowType1 ? bind_type1 : bind_type2;
    EXPECT_EQ(bind(memory_.table(), {.domain = kHome, .qp = kQp}, request), BindRefusal::kNone);
    return request.new_key;
  }

  TestMemory memory_;
};

// Grants.

TEST_F(KeyTableTest, GrantsThePlaceThatWasAskedFor) {
  auto want = memory_.want(memory_.region(kEverything));
  want.address += 40;
  const auto remote_grant = memory_.table().check_remote(want);
  ASSERT_TRUE(remote_grant);
  EXPECT_EQ(remote_grant->offset, 40U);
  EXPECT_EQ(remote_grant->local(), memory_.octets() + 40);
  EXPECT_EQ(remote_grant->entry, &memory_.entry_of(want.key));
  want.need = Access::kLocalWrite;
  const auto local_grant = memory_.table().check_local(want);
  ASSERT_TRUE(local_grant);
  EXPECT_EQ(local_grant->offset, 40U);
  EXPECT_EQ(local_grant->local(), memory_.octets() + 40);
}

TEST_F(KeyTableTest, TheFirstOctetOfARegionMayHaveAnotherAddressInRequests) {
  const auto key = *memory_.registry().register_region({.domain = kHome,
                                                        .address = memory_.start(),
                                                        .octets = 64,
                                                        .base = 0x7000,
                                                        .access = kEverything});
  auto want = memory_.want(key);
  EXPECT_NE(remote(want), Refusal::kNone);
  want.address = 0x7000 + 63;
  const auto grant = memory_.table().check_remote(want);
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->local(), memory_.octets() + 63);
}

TEST_F(KeyTableTest, AZeroBasedRegionIsAddressedByOffset) {
  const auto key =
      *memory_.registry().register_region({.domain = kHome,
                                           .address = memory_.start() + 8,
                                           .octets = 64,
                                           .base = memory_.start() + 8,
                                           .access = kEverything | Access::kZeroBased});
  auto want = memory_.want(key);
  EXPECT_EQ(remote(want), Refusal::kBeyondRange);  // the address in memory means nothing
  want.address = 0;
  const auto first = memory_.table().check_remote(want);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->local(), memory_.octets() + 8);
  want.address = 63;
  EXPECT_EQ(remote(want), Refusal::kNone);
  want.address = 64;
  EXPECT_EQ(remote(want), Refusal::kBeyondRange);
  want.address = kTop;
  EXPECT_EQ(remote(want), Refusal::kBeyondRange);
}

TEST_F(KeyTableTest, AnAccessOfZeroOctetsIsGrantedWithoutAnyCheck) {
  const KeyTable::Want nonsense{.key = wire::MemoryKey{0xdead'beef},
                                .domain = kAbroad,
                                .qp = kOtherQp,
                                .address = kTop,
                                .octets = 0,
                                .need = kEverything};
  const auto remote_grant = memory_.table().check_remote(nonsense);
  const auto local_grant = memory_.table().check_local(nonsense);
  ASSERT_TRUE(remote_grant);
  ASSERT_TRUE(local_grant);
  EXPECT_EQ(remote_grant->entry, nullptr);
  EXPECT_EQ(remote_grant->local(), nullptr);
  EXPECT_EQ(local_grant->entry, nullptr);
  EXPECT_EQ(local_grant->local(), nullptr);
}

TEST_F(KeyTableTest, AFlushOfAWholeRegionNeedsNoRange) {
  auto want = memory_.want(memory_.region(Access::kFlushGlobal));
  want.address = 0;
  want.octets = kTop;
  want.need = Access::kFlushGlobal;
  const auto grant = memory_.table().check_whole(want);
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->local(), memory_.octets());
  want.octets = 0;  // and this is no reason to skip the other checks
  want.domain = kAbroad;
  EXPECT_EQ(whole(want), Refusal::kOtherDomain);
}

// Each refusal.

TEST_F(KeyTableTest, RefusesAKeyOutsideOfTheTable) {
  const auto key = static_cast<std::uint32_t>(memory_.region(kEverything));
  for (const std::uint32_t other :
       {0U, 1U, 0xffU, key - 0x100, key + 0x800, key ^ 0x8000'0000U, 0xffff'ffffU}) {
    const auto want = memory_.want(wire::MemoryKey{other});
    EXPECT_EQ(remote(want), Refusal::kNoSuchKey) << other;
    EXPECT_EQ(local(want), Refusal::kNoSuchKey) << other;
    EXPECT_EQ(whole(want), Refusal::kNoSuchKey) << other;
  }
}

TEST_F(KeyTableTest, RefusesAnEntryThatWasNeverRegistered) {
  const auto key = static_cast<std::uint32_t>(memory_.region(kEverything));
  EXPECT_EQ(remote(memory_.want(wire::MemoryKey{key + 0x100})), Refusal::kNoSuchKey);
}

TEST_F(KeyTableTest, RefusesADeregisteredRegion) {
  const auto key = memory_.region(kEverything);
  ASSERT_TRUE(memory_.registry().deregister_region(key).ok());
  EXPECT_EQ(remote(memory_.want(key)), Refusal::kNoSuchKey);
  EXPECT_EQ(local(memory_.want(key)), Refusal::kNoSuchKey);
  EXPECT_EQ(whole(memory_.want(key)), Refusal::kNoSuchKey);
}

TEST_F(KeyTableTest, RefusesAStaleKey) {
  const auto key = memory_.region(kEverything);
  const auto stale = with_octet(key, static_cast<std::uint32_t>(key) + 1);
  EXPECT_EQ(remote(memory_.want(stale)), Refusal::kStaleKey);
  EXPECT_EQ(local(memory_.want(stale)), Refusal::kStaleKey);
  EXPECT_EQ(whole(memory_.want(stale)), Refusal::kStaleKey);
}

TEST_F(KeyTableTest, RefusesAWindowThatIsNotBound) {
  for (const auto kind : {KeyKind::kWindowType1, KeyKind::kWindowType2A, KeyKind::kWindowType2B}) {
    const auto want = memory_.want(memory_.window(kind));
    EXPECT_EQ(remote(want), Refusal::kInvalidated);
    EXPECT_EQ(local(want), Refusal::kInvalidated);
  }
}

TEST_F(KeyTableTest, RefusesAnInvalidatedWindow) {
  const auto key = bound_window(KeyKind::kWindowType2B);
  ASSERT_EQ(remote(memory_.want(key)), Refusal::kNone);
  ASSERT_EQ(invalidate(memory_.table(), {.domain = kHome, .qp = kQp}, key), BindRefusal::kNone);
  EXPECT_EQ(remote(memory_.want(key)), Refusal::kInvalidated);
}

TEST_F(KeyTableTest, RefusesAWindowAsALocalKey) {
  for (const auto kind : {KeyKind::kWindowType1, KeyKind::kWindowType2A, KeyKind::kWindowType2B}) {
    auto want = memory_.want(bound_window(kind));
    want.need = Access::kNone;
    EXPECT_EQ(local(want), Refusal::kWindowAsLocal);
  }
}

TEST_F(KeyTableTest, RefusesARegionOfAnotherDomain) {
  auto want = memory_.want(memory_.region(kEverything, kAbroad));
  EXPECT_EQ(remote(want), Refusal::kOtherDomain);
  EXPECT_EQ(local(want), Refusal::kOtherDomain);
  want.domain = DomainId::kNone;
  EXPECT_EQ(remote(want), Refusal::kOtherDomain);
}

TEST_F(KeyTableTest, RefusesAType2WindowOfAnotherQueuePair) {
  for (const auto kind : {KeyKind::kWindowType2A, KeyKind::kWindowType2B}) {
    auto want = memory_.want(bound_window(kind));
    want.qp = kOtherQp;
    EXPECT_EQ(remote(want), Refusal::kOtherQueuePair);
  }
}

TEST_F(KeyTableTest, AsksEachKindOfWindowForItsOwnScope) {
  struct Row {
    KeyKind kind;
    Refusal in_another_domain;
    Refusal on_another_queue_pair;
  };
  for (const Row& row :
       {Row{KeyKind::kWindowType1, Refusal::kOtherDomain, Refusal::kNone},
        Row{KeyKind::kWindowType2A, Refusal::kNone, Refusal::kOtherQueuePair},
        Row{KeyKind::kWindowType2B, Refusal::kOtherDomain, Refusal::kOtherQueuePair}}) {
    const auto want = memory_.want(bound_window(row.kind));
    EXPECT_EQ(remote(want), Refusal::kNone);
    auto abroad = want;
    abroad.domain = kAbroad;
    EXPECT_EQ(remote(abroad), row.in_another_domain);
    auto other = want;
    other.qp = kOtherQp;
    EXPECT_EQ(remote(other), row.on_another_queue_pair);
  }
}

TEST_F(KeyTableTest, RefusesToStoreLocallyWithoutLocalWrite) {
  auto want = memory_.want(memory_.region(Access::kRemoteRead));
  want.need = Access::kLocalWrite;
  EXPECT_EQ(local(want), Refusal::kNoLocalWrite);
  want.need = Access::kNone;  // a load needs no right
  EXPECT_EQ(local(want), Refusal::kNone);
}

TEST_F(KeyTableTest, RefusesARemoteWrite) {
  auto want = memory_.want(memory_.region(Access::kLocalWrite | Access::kRemoteRead));
  EXPECT_EQ(remote(want), Refusal::kNoRemoteWrite);
  EXPECT_EQ(whole(want), Refusal::kNoRemoteWrite);
}

TEST_F(KeyTableTest, RefusesARemoteRead) {
  auto want = memory_.want(memory_.region(Access::kLocalWrite | Access::kRemoteWrite));
  want.need = Access::kRemoteRead;
  EXPECT_EQ(remote(want), Refusal::kNoRemoteRead);
}

TEST_F(KeyTableTest, RefusesARemoteAtomic) {
  auto want = memory_.want(
      memory_.region(Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead));
  want.need = Access::kRemoteAtomic;
  EXPECT_EQ(remote(want), Refusal::kNoRemoteAtomic);
}

TEST_F(KeyTableTest, RefusesAFlushOfTheKindThatWasNotAllowed) {
  auto want = memory_.want(memory_.region(kEverything | Access::kFlushGlobal));
  want.need = Access::kFlushGlobal;
  EXPECT_EQ(remote(want), Refusal::kNone);
  want.need = Access::kFlushPersistent;
  EXPECT_EQ(remote(want), Refusal::kNoFlush);
  EXPECT_EQ(whole(want), Refusal::kNoFlush);
}

TEST_F(KeyTableTest, RefusesAnAddressBelowTheRange) {
  auto want = memory_.want(memory_.region(kEverything));
  want.address -= 1;
  EXPECT_EQ(remote(want), Refusal::kBelowRange);
  EXPECT_EQ(local(want), Refusal::kBelowRange);
  want.address = 0;
  EXPECT_EQ(remote(want), Refusal::kBelowRange);
}

TEST_F(KeyTableTest, RefusesARangeThatEndsBeyond) {
  auto want = memory_.want(memory_.region(kEverything));
  want.octets = TestMemory::kOctets;
  EXPECT_EQ(remote(want), Refusal::kNone);
  want.octets += 1;
  EXPECT_EQ(remote(want), Refusal::kBeyondRange);
  want.address += TestMemory::kOctets;
  want.octets = 1;
  EXPECT_EQ(remote(want), Refusal::kBeyondRange);
}

// The range, at both ends and around the end of the address space.

TEST_F(KeyTableTest, JudgesEveryRangeAroundASmallRegionAsArithmeticDoes) {
  constexpr std::uint64_t kBase = 100;
  constexpr std::uint64_t kLength = 16;
  const auto key = *memory_.registry().register_region({.domain = kHome,
                                                        .address = memory_.start(),
                                                        .octets = kLength,
                                                        .base = kBase,
                                                        .access = kEverything});
  auto want = memory_.want(key);
  for (want.address = 80; want.address < 140; ++want.address) {
    for (want.octets = 1; want.octets < 40; ++want.octets) {
      auto expected = Refusal::kNone;
      if (want.address < kBase) {
        expected = Refusal::kBelowRange;
      } else if (want.address + want.octets > kBase + kLength) {
        expected = Refusal::kBeyondRange;
      }
      want.need = Access::kRemoteWrite;
      EXPECT_EQ(remote(want), expected) << want.address << '+' << want.octets;
      want.need = Access::kLocalWrite;
      EXPECT_EQ(local(want), expected) << want.address << '+' << want.octets;
    }
  }
}

TEST_F(KeyTableTest, ARangeThatWrapsAroundTheAddressSpaceIsRefused) {
  const auto key = memory_.region(kEverything);
  struct Row {
    std::uint64_t address;
    std::uint64_t octets;
    Refusal refusal;
  };
  const std::uint64_t start = memory_.start();
  for (const Row& row : {
           Row{start, kTop, Refusal::kBeyondRange},
           Row{start, kTop - start + 1, Refusal::kBeyondRange},  // ends at 2^64, which is 0
           Row{start, kTop - start + 2, Refusal::kBeyondRange},
           Row{start + 1, kTop, Refusal::kBeyondRange},  // the sum wraps to the start
           Row{start + 8, kTop - 3, Refusal::kBeyondRange},
           Row{start - 1, 2, Refusal::kBelowRange},
           Row{0, kTop, Refusal::kBelowRange},
           Row{kTop, 1, Refusal::kBeyondRange},
           Row{kTop, 2, Refusal::kBeyondRange},
           Row{kTop, kTop, Refusal::kBeyondRange},
           Row{kTop - 7, 16, Refusal::kBeyondRange},
           Row{kTop - 7, start + 16, Refusal::kBeyondRange},
       }) {
    auto want = memory_.want(key);
    want.address = row.address;
    want.octets = row.octets;
    EXPECT_EQ(remote(want), row.refusal) << row.address << '+' << row.octets;
  }
}

TEST_F(KeyTableTest, ARegionAtTheEndOfTheAddressSpaceIsCheckedWithoutWrapping) {
  // Never touched: only the checks see these addresses.
  const auto key = *memory_.registry().register_region({.domain = kHome,
                                                        .address = kTop - 16,
                                                        .octets = 16,
                                                        .base = kTop - 16,
                                                        .access = kEverything});
  auto want = memory_.want(key);
  want.address = kTop - 16;
  want.octets = 16;
  EXPECT_EQ(remote(want), Refusal::kNone);
  want.octets = 17;
  EXPECT_EQ(remote(want), Refusal::kBeyondRange);
  want.octets = 18;
  EXPECT_EQ(remote(want), Refusal::kBeyondRange);
  want.address = kTop;
  want.octets = 1;
  EXPECT_EQ(remote(want), Refusal::kBeyondRange);
  want.address = kTop - 17;
  EXPECT_EQ(remote(want), Refusal::kBelowRange);
  want.address = 0;
  EXPECT_EQ(remote(want), Refusal::kBelowRange);
}

TEST_F(KeyTableTest, ARegionWithoutOctetsGrantsNone) {
  const auto key = *memory_.registry().register_region({.domain = kHome,
                                                        .address = memory_.start(),
                                                        .octets = 0,
                                                        .base = memory_.start(),
                                                        .access = kEverything});
  auto want = memory_.want(key);
  EXPECT_EQ(remote(want), Refusal::kBeyondRange);
  want.address -= 1;
  EXPECT_EQ(remote(want), Refusal::kBelowRange);
}

// The order of the checks: a request that breaks every rule is refused for the first one, and with
// that one mended for the next.

TEST_F(KeyTableTest, ARemoteRequestIsRefusedForItsFirstFault) {
  const auto window = memory_.window(KeyKind::kWindowType2B);
  const auto bound = with_octet(window, static_cast<std::uint32_t>(window) + 9);
  ASSERT_EQ(bind_type2(memory_.table(), {.domain = kHome, .qp = kQp},
                       {.window_key = window,
                        .new_key = bound,
                        .region_key = memory_.region(kEverything),
                        .address = memory_.start() + 64,
                        .octets = 64,
                        .access = Access::kNone}),
            BindRefusal::kNone);
  KeyTable::Want want{.key = wire::MemoryKey{0x0100'0000},
                      .domain = kAbroad,
                      .qp = kOtherQp,
                      .address = memory_.start(),
                      .octets = kTop,
                      .need = kEverything | Access::kFlushGlobal};
  EXPECT_EQ(remote(want), Refusal::kNoSuchKey);
  want.key = window;
  EXPECT_EQ(remote(want), Refusal::kStaleKey);
  want.key = memory_.window(KeyKind::kWindowType2B);
  EXPECT_EQ(remote(want), Refusal::kInvalidated);
  want.key = bound;
  EXPECT_EQ(remote(want), Refusal::kOtherDomain);
  want.domain = kHome;
  EXPECT_EQ(remote(want), Refusal::kOtherQueuePair);
  want.qp = kQp;
  EXPECT_EQ(remote(want), Refusal::kNoLocalWrite);
  want.need = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;
  EXPECT_EQ(remote(want), Refusal::kNoRemoteWrite);
  want.need = Access::kRemoteRead | Access::kRemoteAtomic | Access::kFlushGlobal;
  EXPECT_EQ(remote(want), Refusal::kNoRemoteRead);
  want.need = Access::kRemoteAtomic | Access::kFlushGlobal;
  EXPECT_EQ(remote(want), Refusal::kNoRemoteAtomic);
  want.need = Access::kFlushGlobal;
  EXPECT_EQ(remote(want), Refusal::kNoFlush);
  want.need = Access::kNone;
  EXPECT_EQ(remote(want), Refusal::kBelowRange);
  want.address = memory_.start() + 64;
  EXPECT_EQ(remote(want), Refusal::kBeyondRange);
  want.octets = 64;
  EXPECT_EQ(remote(want), Refusal::kNone);
}

TEST_F(KeyTableTest, ALocalElementIsRefusedForItsFirstFault) {
  const auto region = *memory_.registry().register_region({.domain = kHome,
                                                           .address = memory_.start() + 64,
                                                           .octets = 64,
                                                           .base = memory_.start() + 64,
                                                           .access = Access::kRemoteRead});
  KeyTable::Want want{.key = wire::MemoryKey{0},
                      .domain = kAbroad,
                      .qp = kOtherQp,
                      .address = memory_.start(),
                      .octets = kTop,
                      .need = Access::kLocalWrite};
  EXPECT_EQ(local(want), Refusal::kNoSuchKey);
  want.key = with_octet(region, static_cast<std::uint32_t>(region) + 128);
  EXPECT_EQ(local(want), Refusal::kStaleKey);
  want.key = memory_.window(KeyKind::kWindowType1);
  EXPECT_EQ(local(want), Refusal::kInvalidated);
  want.key = bound_window(KeyKind::kWindowType1);
  EXPECT_EQ(local(want), Refusal::kWindowAsLocal);
  want.key = region;
  EXPECT_EQ(local(want), Refusal::kOtherDomain);
  want.domain = kHome;
  EXPECT_EQ(local(want), Refusal::kNoLocalWrite);
  want.need = Access::kNone;
  EXPECT_EQ(local(want), Refusal::kBelowRange);
  want.address = memory_.start() + 64;
  EXPECT_EQ(local(want), Refusal::kBeyondRange);
  want.octets = 64;
  EXPECT_EQ(local(want), Refusal::kNone);
}

// Keys of earlier registrations.

TEST(KeyTable, NoKeyOfTheLast256RegistrationsOfAnEntryWorksAgain) {
  TestMemory memory(1);
  std::set<wire::MemoryKey> earlier;
  for (int generation = 0; generation < 256; ++generation) {
    const auto key = memory.region(kEverything);
    ASSERT_TRUE(earlier.insert(key).second) << "handed out twice: " << generation;
    for (std::uint32_t octet = 0; octet < 256; ++octet) {
      const auto other = with_octet(key, octet);
      const auto expected = other == key ? Refusal::kNone : Refusal::kStaleKey;
      ASSERT_EQ(refusal_of(memory.table().check_remote(memory.want(other))), expected) << octet;
    }
    ASSERT_TRUE(memory.registry().deregister_region(key).ok());
    for (const auto gone : earlier) {
      ASSERT_EQ(refusal_of(memory.table().check_remote(memory.want(gone))), Refusal::kNoSuchKey);
    }
  }
}

TEST(KeyTable, AnEmptyTableKnowsNoKey) {
  const KeyTable table;
  EXPECT_EQ(table.find(wire::MemoryKey{0}), nullptr);
  EXPECT_EQ(refusal_of(table.check_remote({.key = wire::MemoryKey{0}, .octets = 1})),
            Refusal::kNoSuchKey);
  EXPECT_EQ(refusal_of(table.check_whole({.key = wire::MemoryKey{0xffff'ffff}})),
            Refusal::kNoSuchKey);
}

TEST(KeyTable, FindsEntriesByTheUpperBitsOfTheirKeys) {
  TestMemory memory(4, 0x00ff'fffc);  // the last four indices that a key can have
  const KeyTable& table = memory.table();
  for (std::uint32_t index = 0; index < 4; ++index) {
    const wire::MemoryKey key{(0x00ff'fffcU + index) << 8 | 0x5a};
    ASSERT_EQ(table.find(key), &table.at(index));
    EXPECT_EQ(table.index_of(*table.find(key)), index);
  }
  EXPECT_EQ(table.find(wire::MemoryKey{0x00ff'fffbU << 8}), nullptr);
  EXPECT_EQ(table.find(wire::MemoryKey{0}), nullptr);
}

TEST(Refusal, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kRefusalCount; ++i) {
    names.insert(name_of(Refusal(static_cast<std::uint8_t>(i))));
  }
  EXPECT_EQ(names.size(), kRefusalCount);
  EXPECT_EQ(names.count("?"), 0U);
  EXPECT_STREQ(name_of(Refusal(static_cast<std::uint8_t>(kRefusalCount))), "?");
}

// KnownRegion.

std::byte* recall(const KeyTable& table, const KeyTable::Want& want, KnownRegion& known) {
  return table.recall(want, known, [](KnownRegion& region, std::uint64_t) {
    region.map(pointer_as<std::byte>(static_cast<std::uintptr_t>(region.copy.local)), 0,
               region.copy.octets);
  });
}

TEST_F(KeyTableTest, ARegionIsRememberedUntilItChanges) {
  const auto key = memory_.region(kEverything);
  const auto want = memory_.want(key);
  KnownRegion known;
  EXPECT_EQ(recall(memory_.table(), want, known), memory_.octets());
  memory_.registry().change_backing(key, Backing::kShared, 0x7000);
  EXPECT_EQ(recall(memory_.table(), want, known), memory_.octets());
  EXPECT_EQ(known.copy.status.backing, Backing::kShared);
  EXPECT_EQ(known.copy.shared_at, 0x7000U);
  ASSERT_TRUE(memory_.registry().deregister_region(key));
  EXPECT_EQ(recall(memory_.table(), want, known), nullptr);
}

TEST_F(KeyTableTest, ARegionThatWasChangedUnderItsKeyIsLookedUpAgain) {
  const auto key = memory_.region(kEverything);
  KnownRegion known;
  ASSERT_NE(recall(memory_.table(), memory_.want(key), known), nullptr);
  ASSERT_TRUE(memory_.registry().change_region(key, {.domain = kHome,
                                                     .address = memory_.start() + 64,
                                                     .octets = 64,
                                                     .base = memory_.start(),
                                                     .access = kEverything}));
  memory_.registry().publish_region(key);
  EXPECT_EQ(recall(memory_.table(), memory_.want(key), known), memory_.octets() + 64);
  auto beyond = memory_.want(key);
  beyond.octets = 65;
  EXPECT_EQ(recall(memory_.table(), beyond, known), nullptr);
}

TEST_F(KeyTableTest, ARegionIsRememberedAsFarAsAPointerReachesIt) {
  const auto key = memory_.region(kEverything);
  auto want = memory_.want(key);
  const std::uint64_t start = want.address;
  std::array<std::byte, 32> elsewhere;
  KnownRegion known;
  const auto recall_at = [&](std::uint64_t offset, std::uint64_t octets) {
    want.address = start + offset;
    want.octets = octets;
    return memory_.table().recall(want, known, [&](KnownRegion& region, std::uint64_t) {
      region.map(elsewhere.data(), 16, 32);
    });
  };
  EXPECT_EQ(recall_at(16, 32), elsewhere.data());
  EXPECT_EQ(recall_at(47, 1), elsewhere.data() + 31);
  EXPECT_EQ(recall_at(15, 2), nullptr);
  EXPECT_EQ(recall_at(47, 2), nullptr);
  EXPECT_EQ(recall_at(48, 1), nullptr);
}

TEST(SharedPart, IsAllOrWholePagesOrNothing) {
  LiveEntry region{.octets = 3 * kSharedPageOctets, .local = 5 * kSharedPageOctets + 8};
  EXPECT_EQ(shared_part(region).octets, 0U);
  region.status.backing = Backing::kShared;
  EXPECT_EQ(shared_part(region).offset, 0U);
  EXPECT_EQ(shared_part(region).octets, region.octets);
  region.status.backing = Backing::kSharedInside;
  EXPECT_EQ(shared_part(region).offset, kSharedPageOctets - 8);
  EXPECT_EQ(shared_part(region).octets, 2 * kSharedPageOctets);
  region.octets = 100;
  EXPECT_EQ(shared_part(region).octets, 0U);
}

TEST(Grant, KnowsWhichOfItsOctetsAreShared) {
  constexpr std::uint64_t kPage = kSharedPageOctets;
  LiveEntry region{.octets = 3 * kPage, .local = 5 * kPage + 8};
  region.shared_at = 70 * kPage + 8;
  region.status.backing = Backing::kSharedInside;
  const Grant whole = Grant::at(region, 0, region.octets);
  EXPECT_EQ(whole.backing, Backing::kPrivate);
  EXPECT_EQ(whole.shared.offset, kPage - 8);
  EXPECT_EQ(whole.shared.octets, 2 * kPage);
  const Grant inside = whole.from(whole.shared.offset, Backing::kShared);
  EXPECT_EQ(inside.address, 6 * kPage);
  EXPECT_EQ(inside.shared_at, 71 * kPage);
  EXPECT_EQ(inside.backing, Backing::kShared);

  EXPECT_EQ(Grant::at(region, kPage - 8, 2 * kPage).backing, Backing::kShared);
  const Grant across = Grant::at(region, kPage - 9, 2);
  EXPECT_EQ(across.backing, Backing::kPrivate);
  EXPECT_EQ(across.shared.offset, 1U);
  EXPECT_EQ(across.shared.octets, 1U);
  for (const std::uint64_t offset : {std::uint64_t{0}, kPage - 16, 3 * kPage - 8}) {
    const Grant edge = Grant::at(region, offset, 8);
    EXPECT_EQ(edge.backing, Backing::kPrivate) << offset;
    EXPECT_EQ(edge.shared.octets, 0U) << offset;
  }
}

}  // namespace
}  // namespace verbatim::memory
