// SPDX-License-Identifier: Apache-2.0
#include "memory/key_registry.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <limits>
#include <set>
#include <thread>
#include <vector>

#include "memory/test_memory.h"

namespace verbatim::memory {
namespace {

constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
constexpr auto kHome = TestMemory::kHome;
constexpr auto kEverything = TestMemory::kEverything;

std::uint32_t index_of(wire::MemoryKey key) { return static_cast<std::uint32_t>(key) >> 8; }

TEST(KeyRegistry, UsesEveryEntryAndThenReportsAFullTable) {
  TestMemory memory(5);
  std::set<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(memory.registry().used_count(), i);
    indices.insert(index_of(memory.region(kEverything)));
  }
  EXPECT_EQ(indices, (std::set<std::uint32_t>{0x4200, 0x4201, 0x4202, 0x4203, 0x4204}));
  EXPECT_EQ(memory.registry().register_region({.domain = kHome, .octets = 1}).error(),
            Errc::kNoMemory);
  EXPECT_EQ(memory.registry().allocate_window(kHome, KeyKind::kWindowType1).error(),
            Errc::kNoMemory);
  EXPECT_EQ(memory.registry().used_count(), 5U);
}

TEST(KeyRegistry, AFullTableServesAgainAsSoonAsOneEntryIsFree) {
  TestMemory memory(3);
  std::vector<wire::MemoryKey> keys;
  for (int i = 0; i < 3; ++i) keys.push_back(memory.region(kEverything));
  ASSERT_TRUE(memory.registry().deregister_region(keys[1]).ok());
  EXPECT_EQ(memory.registry().used_count(), 2U);
  const auto window = memory.registry().allocate_window(kHome, KeyKind::kWindowType2B);
  ASSERT_TRUE(window);
  EXPECT_EQ(index_of(*window), index_of(keys[1]));
  EXPECT_EQ(memory.registry().allocate_window(kHome, KeyKind::kWindowType2B).error(),
            Errc::kNoMemory);
}

TEST(KeyRegistry, ReusesEntriesInTheOrderInWhichTheyWereFreed) {
  TestMemory memory(4);
  std::vector<wire::MemoryKey> keys;
  for (int i = 0; i < 4; ++i) keys.push_back(memory.region(kEverything));
  for (const std::size_t freed : {2U, 0U, 3U}) {
    ASSERT_TRUE(memory.registry().deregister_region(keys[freed]).ok());
  }
  for (const std::size_t reused : {2U, 0U, 3U}) {
    EXPECT_EQ(index_of(memory.region(kEverything)), index_of(keys[reused]));
  }
}

TEST(KeyRegistry, PrefersTheEntryThatHasBeenFreeLongest) {
  TestMemory memory(4);
  std::vector<std::uint32_t> order;
  for (int round = 0; round < 12; ++round) {
    const auto key = memory.region(kEverything);
    order.push_back(index_of(key) - TestMemory::kFirstIndex);
    ASSERT_TRUE(memory.registry().deregister_region(key).ok());
  }
  EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
}

TEST(KeyRegistry, AnEntryChangesItsLowOctetAtEveryReuse) {
  TestMemory memory(1);
  auto last = memory.region(kEverything);
  for (int round = 0; round < 600; ++round) {
    ASSERT_TRUE(memory.registry().deregister_region(last).ok());
    const auto next = memory.region(kEverything);
    ASSERT_EQ(next, KeyRegistry::next_key(last));
    ASSERT_EQ(index_of(next), index_of(last));
    last = next;
  }
}

TEST(KeyRegistry, AnEntryFreedAsAWindowGoesOnFromTheKeyOfItsLastBinding) {
  TestMemory memory(2);
  const auto region = memory.region(kEverything);
  const auto window = memory.window(KeyKind::kWindowType2B);
  const auto bound = with_octet(window, 0xff);
  ASSERT_EQ(bind_type2(memory.table(), {.domain = kHome, .qp = TestMemory::kQp},
                       {.window_key = window,
                        .new_key = bound,
                        .region_key = region,
                        .address = memory.start(),
                        .octets = 1,
                        .access = Access::kRemoteRead}),
            BindRefusal::kNone);
  ASSERT_TRUE(memory.registry().free_window(bound).ok());
  EXPECT_EQ(memory.window(KeyKind::kWindowType2B), with_octet(window, 0x00));
}

TEST(KeyRegistry, KeysBeginAtTheFirstIndexOfTheTable) {
  for (const std::uint32_t first : {1U, 0x1000U, kKeyIndexLimit - 4}) {
    TestMemory memory(4, first);
    for (std::uint32_t i = 0; i < 4; ++i) {
      const auto key = memory.region(kEverything);
      EXPECT_EQ(index_of(key), first + i);
      EXPECT_EQ(refusal_of(memory.table().check_remote(memory.want(key))), Refusal::kNone);
    }
  }
}

TEST(KeyRegistry, NeverHandsOutKeyZeroNorAWindowThatCouldGetIt) {
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    TestMemory memory(2, 0, seed);
    for (int round = 0; round < 300; ++round) {
      const auto key = memory.region(kEverything);
      ASSERT_NE(key, wire::MemoryKey{0});
      ASSERT_EQ(index_of(key), 1U);
      ASSERT_EQ(memory.registry().allocate_window(kHome, KeyKind::kWindowType2B).error(),
                Errc::kNoMemory);
      ASSERT_TRUE(memory.registry().deregister_region(key).ok());
    }
    EXPECT_EQ(memory.registry().used_count(), 0U);
  }
}

TEST(KeyRegistry, DifferentSeedsBeginWithDifferentOctets) {
  std::set<std::uint32_t> octets;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    TestMemory memory(1, TestMemory::kFirstIndex, seed);
    octets.insert(static_cast<std::uint32_t>(memory.region(kEverything)) & 0xffU);
  }
  EXPECT_GT(octets.size(), 32U);
}

TEST(KeyRegistry, RefusesRightsThatContradictEachOther) {
  TestMemory memory;
  for (const Access access :
       {Access::kRemoteWrite, Access::kRemoteAtomic, Access::kRemoteAtomic | Access::kRemoteRead}) {
    EXPECT_EQ(
        memory.registry().register_region({.domain = kHome, .octets = 1, .access = access}).error(),
        Errc::kInvalidArgument);
  }
  EXPECT_EQ(memory.registry().used_count(), 0U);
}

TEST(KeyRegistry, RefusesARangeThatWraps) {
  TestMemory memory;
  KeyRegistry& registry = memory.registry();
  EXPECT_FALSE(registry.register_region({.domain = kHome, .address = kTop, .octets = 2}));
  EXPECT_FALSE(registry.register_region({.domain = kHome, .address = 8, .octets = kTop}));
  EXPECT_FALSE(registry.register_region({.domain = kHome, .octets = 2, .base = kTop}));
  EXPECT_FALSE(registry.register_region({.domain = kHome, .octets = kTop, .base = 1}));
  EXPECT_EQ(registry.used_count(), 0U);
  EXPECT_TRUE(registry.register_region({.domain = kHome, .octets = kTop}));
}

TEST(KeyRegistry, AZeroBasedRegionHasNoOtherBaseToBeJudgedBy) {
  TestMemory memory;
  const auto key = memory.registry().register_region({.domain = kHome,
                                                      .address = memory.start(),
                                                      .octets = 64,
                                                      .base = kTop,
                                                      .access = Access::kZeroBased});
  ASSERT_TRUE(key);
  EXPECT_EQ(memory.entry_of(*key).base, 0U);
}

TEST(KeyRegistry, RefusesWhatBelongsToNoDomain) {
  TestMemory memory;
  EXPECT_EQ(memory.registry().register_region({.octets = 1}).error(), Errc::kInvalidArgument);
  EXPECT_EQ(memory.registry().allocate_window(DomainId::kNone, KeyKind::kWindowType1).error(),
            Errc::kInvalidArgument);
  EXPECT_EQ(memory.registry().used_count(), 0U);
}

TEST(KeyRegistry, AllocatesWindowsOnly) {
  TestMemory memory;
  for (const auto kind : {KeyKind::kNone, KeyKind::kRegion}) {
    EXPECT_EQ(memory.registry().allocate_window(kHome, kind).error(), Errc::kInvalidArgument);
  }
  EXPECT_EQ(memory.registry().used_count(), 0U);
}

TEST(KeyRegistry, DeregistersNothingButARegionByItsWholeKey) {
  TestMemory memory;
  const auto region = memory.region(kEverything);
  const auto window = memory.window(KeyKind::kWindowType1);
  for (const wire::MemoryKey key :
       {wire::MemoryKey{0}, wire::MemoryKey{0xffff'ffff}, window, KeyRegistry::next_key(region)}) {
    EXPECT_EQ(memory.registry().deregister_region(key).error(), Errc::kInvalidArgument);
  }
  EXPECT_EQ(memory.registry().used_count(), 2U);
  ASSERT_TRUE(memory.registry().deregister_region(region).ok());
  EXPECT_EQ(memory.registry().deregister_region(region).error(), Errc::kInvalidArgument);
  EXPECT_EQ(memory.registry().used_count(), 1U);
}

TEST(KeyRegistry, ARegionChangesUnderTheKeyItHas) {
  TestMemory memory(3);
  const auto key = memory.region(kEverything);
  ASSERT_TRUE(memory.registry().change_region(
      key, {.domain = kHome, .address = 64, .octets = 8, .base = 64, .access = Access::kNone}));
  EXPECT_EQ(load_live(memory.entry_of(key)), 0U);
  memory.registry().publish_region(key);
  const KeyTable& table = memory.registry().table();
  EXPECT_TRUE(table.check_local({.key = key, .domain = kHome, .address = 64, .octets = 8}));
  EXPECT_FALSE(table.check_local({.key = key, .domain = kHome, .address = 64, .octets = 9}));
  EXPECT_FALSE(table.check_remote(
      {.key = key, .domain = kHome, .address = 64, .octets = 8, .need = Access::kRemoteRead}));
  EXPECT_EQ(memory.registry().used_count(), 1U);
}

TEST(KeyRegistry, ARefusedChangeChangesNothing) {
  TestMemory memory(3);
  const auto key = memory.region(kEverything);
  const KeyEntry before = *memory.registry().table().find(key);
  const auto change = [&](wire::MemoryKey of, const KeyRegistry::Region& to) {
    return memory.registry().change_region(of, to).error();
  };
  EXPECT_EQ(change(key, {.domain = DomainId::kNone, .octets = 8}), Errc::kInvalidArgument);
  EXPECT_EQ(change(key, {.domain = kHome, .octets = 8, .access = Access::kRemoteWrite}),
            Errc::kInvalidArgument);
  EXPECT_EQ(change(key, {.domain = kHome, .address = kTop, .octets = 8}), Errc::kInvalidArgument);
  EXPECT_EQ(change(KeyRegistry::next_key(key), {.domain = kHome, .octets = 8}),
            Errc::kInvalidArgument);
  memory.registry().table().find(key)->bound = 1;
  EXPECT_EQ(change(key, {.domain = kHome, .octets = 8}), Errc::kBusy);
  const KeyEntry& after = *memory.registry().table().find(key);
  EXPECT_EQ(after.status.live, before.status.live);
  EXPECT_EQ(after.octets, before.octets);
  EXPECT_EQ(after.status.generation, before.status.generation);
}

TEST(KeyRegistry, ARegionWhoseMemoryWasUnmappedWorksOnlyWithOtherMemory) {
  TestMemory memory;
  const auto key = memory.region(kEverything);
  const KeyEntry& entry = memory.entry_of(key);
  const auto change = [&](KeyRegistry::Memory which) {
    return memory.registry().change_region(key,
                                           {.domain = kHome,
                                            .address = memory.start(),
                                            .octets = TestMemory::kOctets,
                                            .base = memory.start(),
                                            .access = Access::kLocalWrite},
                                           which);
  };
  using Closed = KeyRegistry::Closed;
  const std::uint64_t end = memory.start() + TestMemory::kOctets;
  EXPECT_EQ(memory.registry().close(end, end + 1), Closed::kNothing);
  EXPECT_FALSE(memory.registry().is_closed(key));
  EXPECT_EQ(memory.registry().close(memory.start(), end), Closed::kNow);
  EXPECT_EQ(memory.registry().close(memory.start(), end), Closed::kBefore);
  EXPECT_TRUE(memory.registry().is_closed(key));
  ASSERT_TRUE(change(KeyRegistry::Memory::kSame).ok());
  memory.registry().publish_region(key);
  EXPECT_EQ(load_live(entry), 0U);
  EXPECT_EQ(entry.access, Access::kLocalWrite);
  EXPECT_TRUE(memory.registry().is_closed(key));
  ASSERT_TRUE(change(KeyRegistry::Memory::kOther).ok());
  memory.registry().publish_region(key);
  EXPECT_EQ(load_live(entry), static_cast<std::uint32_t>(key));
  EXPECT_FALSE(memory.registry().is_closed(key));
}

TEST(KeyRegistry, AChangedRegionIsNotPublishedWhenItsMemoryIsGoneMeanwhile) {
  TestMemory memory;
  const auto key = memory.region(kEverything);
  constexpr std::uint64_t kElsewhere = 0x10'0000;
  ASSERT_TRUE(memory.registry().change_region(
      key, {.domain = kHome, .address = kElsewhere, .octets = 64, .base = kElsewhere}));
  EXPECT_EQ(memory.registry().close(kElsewhere, kElsewhere + 1), KeyRegistry::Closed::kBefore);
  memory.registry().publish_region(key);
  EXPECT_EQ(load_live(memory.entry_of(key)), 0U);
  EXPECT_TRUE(memory.registry().is_closed(key));
}

/// A thread says all the time that the memory at kOld is gone. The tests stop it anywhere in the
/// middle of that, and change what the keys name meanwhile.
class RegistryBesideAnUnmapping : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kOld = 0x10'0000;
  static constexpr std::uint64_t kNew = 0x8'0000;  // shorter, and it ends where kOld begins
  static constexpr int kRounds = 300;

  RegistryBesideAnUnmapping() {
    struct sigaction action {};
    action.sa_handler = [](int) {
      is_stopped_ = true;
      while (is_stopped_) std::this_thread::yield();
    };
    ::sigaction(SIGUSR1, &action, &before_);
  }
  ~RegistryBesideAnUnmapping() override {
    is_over_ = true;
    unmapping_.join();
    ::sigaction(SIGUSR1, &before_, nullptr);
  }
  /// Runs `change` while the thread is stopped, and returns when the call that it was in is over.
  template <typename Change>
  void amid_unmapping(Change&& change) {
    ::pthread_kill(unmapping_.native_handle(), SIGUSR1);
    while (!is_stopped_) std::this_thread::yield();
    change();
    const int before = calls_;
    is_stopped_ = false;
    while (calls_ - before < 2) std::this_thread::yield();
  }
  [[nodiscard]] static KeyRegistry::Region place(std::uint64_t address) {
    const std::uint64_t octets = address == kOld ? 0x10'0000 : kOld - kNew;
    return {.domain = kHome,
            .address = address,
            .octets = octets,
            .base = address,
            .access = kEverything};
  }

  TestMemory memory;

 private:
  static inline std::atomic<bool> is_stopped_{false};
  struct sigaction before_ {};
  std::atomic<bool> is_over_{false};
  std::atomic<int> calls_{0};
  std::thread unmapping_{[this] {
    while (!is_over_) {
      (void)memory.registry().close(kOld, kOld + 1);
      ++calls_;
    }
  }};
};

TEST_F(RegistryBesideAnUnmapping, ARegionThatHasGotOtherMemoryStaysValid) {
  const auto key = *memory.registry().register_region(place(kNew));
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_TRUE(memory.registry().change_region(key, place(kOld)).ok());
    amid_unmapping([&] {
      ASSERT_TRUE(memory.registry().change_region(key, place(kNew)).ok());
      memory.registry().publish_region(key);
    });
    ASSERT_EQ(load_live(memory.entry_of(key)), static_cast<std::uint32_t>(key)) << round;
  }
}

TEST_F(RegistryBesideAnUnmapping, AWindowThatWasBoundToOtherMemoryStaysValidAndIsCountedThere) {
  const auto region = *memory.registry().register_region(place(kNew));
  auto window = memory.window(KeyKind::kWindowType1);
  const auto bind = [&](wire::MemoryKey to, std::uint64_t address) {
    const auto next = KeyRegistry::next_key(window);
    const auto refused = bind_type1(memory.table(), {.domain = kHome, .qp = TestMemory::kQp},
                                    {.window_key = window,
                                     .new_key = next,
                                     .region_key = to,
                                     .address = address,
                                     .octets = 64,
                                     .access = Access::kRemoteRead});
    if (refused == BindRefusal::kNone) window = next;
    return refused == BindRefusal::kNone;
  };
  for (int round = 0; round < kRounds; ++round) {
    const auto old = *memory.registry().register_region(place(kOld));
    (void)bind(old, kOld);  // the region may be closed already
    amid_unmapping([&] { ASSERT_TRUE(bind(region, kNew)) << round; });
    ASSERT_NE(load_live(memory.entry_of(window)), 0U) << round;
    ASSERT_EQ(memory.entry_of(region).bound, 1U) << round;
    ASSERT_TRUE(memory.registry().deregister_region(old).ok()) << round;
  }
}

// A reader that has loaded kShared may load `shared_at` only afterwards.
TEST(KeyRegistry, OctetsThatAreNoLongerSharedKeepTheirSharedOffset) {
  TestMemory memory;
  const auto key = memory.region(kEverything);
  const KeyEntry& entry = *memory.registry().table().find(key);
  memory.registry().change_backing(key, Backing::kShared, 0x7000);
  memory.registry().change_backing(key, Backing::kPrivate, 0);
  EXPECT_EQ(entry.status.backing, Backing::kPrivate);
  EXPECT_EQ(entry.shared_at, 0x7000U);
}

TEST(KeyRegistry, FreesNothingButAWindowByItsWholeKey) {
  TestMemory memory;
  const auto region = memory.region(kEverything);
  const auto window = memory.window(KeyKind::kWindowType1);
  for (const wire::MemoryKey key :
       {wire::MemoryKey{0}, wire::MemoryKey{0xffff'ffff}, region, KeyRegistry::next_key(window)}) {
    EXPECT_EQ(memory.registry().free_window(key).error(), Errc::kInvalidArgument);
  }
  EXPECT_EQ(memory.registry().used_count(), 2U);
  ASSERT_TRUE(memory.registry().free_window(window).ok());
  EXPECT_EQ(memory.registry().free_window(window).error(), Errc::kInvalidArgument);
  EXPECT_EQ(memory.registry().used_count(), 1U);
}

TEST(KeyRegistry, AReusedEntryKeepsNothingOfItsPast) {
  TestMemory memory(1);
  const auto region = memory.region(kEverything | Access::kZeroBased);
  ASSERT_TRUE(memory.registry().deregister_region(region).ok());
  const auto window = memory.window(KeyKind::kWindowType2B, TestMemory::kAbroad);
  const KeyEntry& entry = memory.entry_of(window);
  EXPECT_EQ(entry.status.live, 0U);
  EXPECT_EQ(entry.domain, TestMemory::kAbroad);
  EXPECT_EQ(entry.access, Access::kNone);
  EXPECT_EQ(entry.octets, 0U);
  EXPECT_EQ(entry.local, 0U);
  EXPECT_EQ(entry.bound, 0U);
}

TEST(KeyRegistryDeathTest, ATableWhoseKeysDoNotFitStopsTheProcess) {
  std::array<KeyEntry, 2> entries{};
  std::array<std::uint32_t, 2> free_list{};
  EXPECT_DEATH(KeyRegistry(KeyTable(entries, kKeyIndexLimit - 1), free_list, 1), "kKeyIndexLimit");
  EXPECT_DEATH(KeyRegistry(KeyTable(entries, 1), std::span(free_list).first(1), 1), "free_list");
}

}  // namespace
}  // namespace verbatim::memory
