// SPDX-License-Identifier: Apache-2.0
#include "memory/window.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <set>
#include <string>
#include <thread>

#include "memory/test_memory.h"

namespace verbatim::memory {
namespace {

constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
constexpr auto kHome = TestMemory::kHome;
constexpr auto kAbroad = TestMemory::kAbroad;
constexpr auto kQp = TestMemory::kQp;
constexpr auto kOtherQp = TestMemory::kOtherQp;
constexpr auto kEverything = TestMemory::kEverything;
constexpr Binder kBinder{.domain = kHome, .qp = kQp};
constexpr Access kReadWrite = Access::kRemoteRead | Access::kRemoteWrite;

class WindowTest : public testing::Test {
 protected:
  /// A good request: the second 64 octets of the region, to read and to write.
  BindRequest request(wire::MemoryKey window) const {
    return {.window_key = window,
            .new_key = KeyRegistry::next_key(window),
            .region_key = region_,
            .address = memory_.start() + 64,
            .octets = 64,
            .access = kReadWrite};
  }
  BindRefusal bind1(const BindRequest& request, const Binder& binder = kBinder) const {
    return bind_type1(memory_.table(), binder, request);
  }
  BindRefusal bind2(const BindRequest& request, const Binder& binder = kBinder) const {
    return bind_type2(memory_.table(), binder, request);
  }
  BindRefusal drop(wire::MemoryKey key, const Binder& binder = kBinder) const {
    return invalidate(memory_.table(), binder, key);
  }
  /// The result of a peer's write to the first octet of the good request's range.
  Refusal write(wire::MemoryKey key, std::uint64_t offset = 64, std::uint64_t octets = 1) const {
    auto want = memory_.want(key);
    want.address += offset;
    want.octets = octets;
    return refusal_of(memory_.table().check_remote(want));
  }
  std::uint32_t windows_on_region() const { return memory_.entry_of(region_).bound; }

  TestMemory memory_;
  wire::MemoryKey region_ = memory_.region(kEverything);
};

// Access through a bound window.

TEST_F(WindowTest, ABoundWindowGrantsItsRangeAndNoMore) {
  for (const auto kind : {KeyKind::kWindowType1, KeyKind::kWindowType2A, KeyKind::kWindowType2B}) {
    const auto good = request(memory_.window(kind));
    ASSERT_EQ(kind == KeyKind::kWindowType1 ? bind1(good) : bind2(good), BindRefusal::kNone);
    EXPECT_EQ(write(good.new_key, 63), Refusal::kBelowRange);
    EXPECT_EQ(write(good.new_key, 64, 64), Refusal::kNone);
    EXPECT_EQ(write(good.new_key, 64, 65), Refusal::kBeyondRange);
    EXPECT_EQ(write(good.new_key, 128), Refusal::kBeyondRange);
    auto want = memory_.want(good.new_key);
    want.address += 70;
    const auto grant = memory_.table().check_remote(want);
    ASSERT_TRUE(grant);
    EXPECT_EQ(grant->local(), memory_.octets() + 70);
    EXPECT_EQ(grant->offset, 6U);
  }
}

TEST_F(WindowTest, AWindowHasItsOwnRightsAndNotThoseOfItsRegion) {
  auto read_only = request(memory_.window(KeyKind::kWindowType2B));
  read_only.access = Access::kRemoteRead;
  ASSERT_EQ(bind2(read_only), BindRefusal::kNone);
  auto want = memory_.want(read_only.new_key);
  want.address += 64;
  EXPECT_EQ(refusal_of(memory_.table().check_remote(want)), Refusal::kNoRemoteWrite);
  want.need = Access::kRemoteAtomic;
  EXPECT_EQ(refusal_of(memory_.table().check_remote(want)), Refusal::kNoRemoteAtomic);
  want.need = Access::kRemoteRead;
  EXPECT_EQ(refusal_of(memory_.table().check_remote(want)), Refusal::kNone);
}

TEST_F(WindowTest, AWindowGivesRemoteRightsThatItsRegionDoesNotGive) {
  region_ = memory_.region(Access::kLocalWrite | Access::kBindWindow);
  const auto good = request(memory_.window(KeyKind::kWindowType2B));
  ASSERT_EQ(bind2(good), BindRefusal::kNone);
  EXPECT_EQ(write(good.new_key), Refusal::kNone);
  EXPECT_EQ(write(region_), Refusal::kNoRemoteWrite);
}

TEST_F(WindowTest, AZeroBasedWindowIsAddressedByOffset) {
  auto zero_based = request(memory_.window(KeyKind::kWindowType2B));
  zero_based.access = kReadWrite | Access::kZeroBased;
  ASSERT_EQ(bind2(zero_based), BindRefusal::kNone);
  auto want = memory_.want(zero_based.new_key);
  want.address = 0;
  want.octets = 64;
  const auto grant = memory_.table().check_remote(want);
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->local(), memory_.octets() + 64);
  want.octets = 65;
  EXPECT_EQ(refusal_of(memory_.table().check_remote(want)), Refusal::kBeyondRange);
  EXPECT_EQ(write(zero_based.new_key), Refusal::kBeyondRange);
}

TEST_F(WindowTest, AWindowFollowsARegionWhoseKeysNameOtherAddresses) {
  region_ = *memory_.registry().register_region({.domain = kHome,
                                                 .address = memory_.start() + 256,
                                                 .octets = 128,
                                                 .base = 0x1'0000,
                                                 .access = kEverything});
  auto good = request(memory_.window(KeyKind::kWindowType1));
  EXPECT_EQ(bind1(good), BindRefusal::kOutsideRegion);
  good.address = 0x1'0000 + 100;
  good.octets = 28;
  ASSERT_EQ(bind1(good), BindRefusal::kNone);
  auto want = memory_.want(good.new_key);
  want.address = 0x1'0000 + 127;
  const auto grant = memory_.table().check_remote(want);
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->local(), memory_.octets() + 256 + 127);
}

TEST_F(WindowTest, AWindowMayCoverAllOfItsRegion) {
  auto all = request(memory_.window(KeyKind::kWindowType2A));
  all.address = memory_.start();
  all.octets = TestMemory::kOctets;
  ASSERT_EQ(bind2(all), BindRefusal::kNone);
  EXPECT_EQ(write(all.new_key, 0, TestMemory::kOctets), Refusal::kNone);
}

TEST_F(WindowTest, AConsumerMayChooseTheSameKeyAgain) {
  auto good = request(memory_.window(KeyKind::kWindowType2B));
  good.new_key = good.window_key;
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(bind2(good), BindRefusal::kNone);
    EXPECT_EQ(write(good.new_key), Refusal::kNone);
    ASSERT_EQ(drop(good.new_key), BindRefusal::kNone);
    EXPECT_EQ(write(good.new_key), Refusal::kInvalidated);
  }
}

/// A peer that was stopped with a grant in hand compares the generations.
TEST_F(WindowTest, TheSameKeyBoundAgainIsAnotherGeneration) {
  auto good = request(memory_.window(KeyKind::kWindowType2B));
  good.new_key = good.window_key;
  auto want = memory_.want(good.new_key);
  want.address += 64;
  want.octets = 1;
  ASSERT_EQ(bind2(good), BindRefusal::kNone);
  const auto before = memory_.table().check_remote(want);
  ASSERT_EQ(drop(good.new_key), BindRefusal::kNone);
  ASSERT_EQ(bind2(good), BindRefusal::kNone);
  const auto after = memory_.table().check_remote(want);
  ASSERT_TRUE(before && after);
  EXPECT_NE(before->generation, after->generation);
}

TEST_F(WindowTest, AConsumerMayChooseAnyOctet) {
  auto good = request(memory_.window(KeyKind::kWindowType2B));
  for (std::uint32_t octet = 0; octet < 256; ++octet) {
    good.new_key = with_octet(good.window_key, octet);
    ASSERT_EQ(bind2(good), BindRefusal::kNone) << octet;
    ASSERT_EQ(write(good.new_key), Refusal::kNone) << octet;
    ASSERT_EQ(drop(good.new_key), BindRefusal::kNone) << octet;
    good.window_key = good.new_key;
  }
  EXPECT_EQ(windows_on_region(), 0U);
}

// Type 1: the provider chooses a new key at each bind; a bind with zero octets unbinds.

TEST_F(WindowTest, BindingAType1WindowAnewEndsThePreviousBinding) {
  const auto first = request(memory_.window(KeyKind::kWindowType1));
  ASSERT_EQ(bind1(first), BindRefusal::kNone);
  auto second = request(first.new_key);
  second.address = memory_.start() + 1024;
  ASSERT_EQ(bind1(second), BindRefusal::kNone);
  EXPECT_EQ(write(first.new_key), Refusal::kStaleKey);
  EXPECT_EQ(write(second.new_key, 1024), Refusal::kNone);
  EXPECT_EQ(write(second.new_key, 64), Refusal::kBelowRange);
  EXPECT_EQ(windows_on_region(), 1U);
}

TEST_F(WindowTest, AType1WindowMovesFromRegionToRegion) {
  const auto first = request(memory_.window(KeyKind::kWindowType1));
  ASSERT_EQ(bind1(first), BindRefusal::kNone);
  const auto other_region = memory_.region(kEverything);
  auto second = request(first.new_key);
  second.region_key = other_region;
  ASSERT_EQ(bind1(second), BindRefusal::kNone);
  EXPECT_EQ(windows_on_region(), 0U);
  EXPECT_EQ(memory_.entry_of(other_region).bound, 1U);
  EXPECT_TRUE(memory_.registry().deregister_region(region_).ok());
  EXPECT_EQ(memory_.registry().deregister_region(other_region).error(), Errc::kBusy);
}

TEST_F(WindowTest, BindingAType1WindowToNoOctetsUnbindsIt) {
  const auto bound = request(memory_.window(KeyKind::kWindowType1));
  ASSERT_EQ(bind1(bound), BindRefusal::kNone);
  const BindRequest nothing{.window_key = bound.new_key,
                            .new_key = KeyRegistry::next_key(bound.new_key)};
  ASSERT_EQ(bind1(nothing), BindRefusal::kNone);
  EXPECT_EQ(write(bound.new_key), Refusal::kStaleKey);
  EXPECT_EQ(write(nothing.new_key), Refusal::kInvalidated);
  EXPECT_EQ(windows_on_region(), 0U);
  // Once more does no harm, and it can be bound again.
  const BindRequest again{.window_key = nothing.new_key,
                          .new_key = KeyRegistry::next_key(nothing.new_key)};
  ASSERT_EQ(bind1(again), BindRefusal::kNone);
  EXPECT_EQ(windows_on_region(), 0U);
  ASSERT_EQ(bind1(request(again.new_key)), BindRefusal::kNone);
  EXPECT_EQ(windows_on_region(), 1U);
}

TEST_F(WindowTest, ARefusedRebindLeavesTheBindingAsItWas) {
  const auto bound = request(memory_.window(KeyKind::kWindowType1));
  ASSERT_EQ(bind1(bound), BindRefusal::kNone);
  auto outside = request(bound.new_key);
  outside.octets = TestMemory::kOctets;
  ASSERT_EQ(bind1(outside), BindRefusal::kOutsideRegion);
  EXPECT_EQ(write(bound.new_key), Refusal::kNone);
  EXPECT_EQ(write(outside.new_key), Refusal::kStaleKey);
  EXPECT_EQ(windows_on_region(), 1U);
}

TEST_F(WindowTest, AType1WindowServesEveryQueuePairOfItsDomain) {
  const auto bound = request(memory_.window(KeyKind::kWindowType1));
  ASSERT_EQ(bind1(bound), BindRefusal::kNone);
  auto want = memory_.want(bound.new_key);
  want.address += 64;
  want.qp = kOtherQp;
  EXPECT_EQ(refusal_of(memory_.table().check_remote(want)), Refusal::kNone);
}

// Each refusal.

TEST_F(WindowTest, RefusesToBindWhatIsNoWindow) {
  auto bad = request(memory_.window(KeyKind::kWindowType2B));
  for (const wire::MemoryKey key : {region_, wire::MemoryKey{0}, wire::MemoryKey{0xffff'ffff},
                                    wire::MemoryKey{(TestMemory::kFirstIndex + 7) << 8}}) {
    bad.window_key = key;
    bad.new_key = KeyRegistry::next_key(key);
    EXPECT_EQ(bind1(bad), BindRefusal::kNoSuchWindow);
    EXPECT_EQ(bind2(bad), BindRefusal::kNoSuchWindow);
  }
}

TEST_F(WindowTest, RefusesToBindAFreedWindow) {
  const auto freed = request(memory_.window(KeyKind::kWindowType2B));
  ASSERT_TRUE(memory_.registry().free_window(freed.window_key).ok());
  EXPECT_EQ(bind2(freed), BindRefusal::kNoSuchWindow);
}

TEST_F(WindowTest, BindsAWindowWhoseLastBindFailed) {
  // The program uses the key of the bind that failed as the window's key.
  auto failed = request(memory_.window(KeyKind::kWindowType2B));
  failed.octets = 0;
  ASSERT_EQ(bind2(failed), BindRefusal::kEmptyRange);
  const auto next = request(failed.new_key);
  EXPECT_EQ(bind2(next), BindRefusal::kNone);
  EXPECT_EQ(write(next.new_key), Refusal::kNone);
  EXPECT_EQ(write(failed.new_key), Refusal::kStaleKey);

  auto denied = request(memory_.window(KeyKind::kWindowType1));
  denied.access = Access::kZeroBased;
  ASSERT_EQ(bind1(denied), BindRefusal::kBadAccess);
  EXPECT_EQ(bind1(request(denied.new_key)), BindRefusal::kNone);
}

TEST_F(WindowTest, RefusesANewKeyOfAnotherWindow) {
  auto bad = request(memory_.window(KeyKind::kWindowType2B));
  bad.new_key = memory_.window(KeyKind::kWindowType2B);
  EXPECT_EQ(bind2(bad), BindRefusal::kWrongWindowKey);
}

TEST_F(WindowTest, RefusesKeyZeroEvenToAWindowThatCouldHaveIt) {
  // No registry makes such an entry, but other code that fills the storage might.
  std::array<KeyEntry, 2> entries{};
  const KeyTable table(entries, 0);
  fill(entries[0], {.status = {.kind = KeyKind::kWindowType2B}, .key = 0x7, .domain = kHome});
  fill(entries[1], {.status = {.kind = KeyKind::kRegion},
                    .key = 0x107,
                    .domain = kHome,
                    .access = kEverything,
                    .octets = 64});
  publish(entries[1]);
  const BindRequest bad{.window_key = wire::MemoryKey{0x7},
                        .new_key = wire::MemoryKey{0},
                        .region_key = wire::MemoryKey{0x107},
                        .octets = 1};
  EXPECT_EQ(bind_type2(table, kBinder, bad), BindRefusal::kWrongWindowKey);
  EXPECT_EQ(entries[1].bound, 0U);
}

TEST_F(WindowTest, RefusesAWindowOfTheOtherType) {
  EXPECT_EQ(bind2(request(memory_.window(KeyKind::kWindowType1))), BindRefusal::kWrongWindowType);
  EXPECT_EQ(bind1(request(memory_.window(KeyKind::kWindowType2A))), BindRefusal::kWrongWindowType);
  EXPECT_EQ(bind1(request(memory_.window(KeyKind::kWindowType2B))), BindRefusal::kWrongWindowType);
}

TEST_F(WindowTest, RefusesToBindAType2WindowTwice) {
  for (const auto kind : {KeyKind::kWindowType2A, KeyKind::kWindowType2B}) {
    const auto good = request(memory_.window(kind));
    ASSERT_EQ(bind2(good), BindRefusal::kNone);
    EXPECT_EQ(bind2(request(good.new_key)), BindRefusal::kAlreadyBound);
    ASSERT_EQ(drop(good.new_key), BindRefusal::kNone);
    EXPECT_EQ(bind2(request(good.new_key)), BindRefusal::kNone);
  }
}

TEST_F(WindowTest, RefusesWindowRegionAndQueuePairOfDifferentDomains) {
  const auto at_home = memory_.window(KeyKind::kWindowType2B);
  const auto abroad = memory_.window(KeyKind::kWindowType2B, kAbroad);
  const auto region_abroad = memory_.region(kEverything, kAbroad);
  EXPECT_EQ(bind2(request(abroad)), BindRefusal::kOtherDomain);
  EXPECT_EQ(bind2(request(at_home), {.domain = kAbroad, .qp = kQp}), BindRefusal::kOtherDomain);
  auto mixed = request(at_home);
  mixed.region_key = region_abroad;
  EXPECT_EQ(bind2(mixed), BindRefusal::kOtherDomain);
  // Peers of any domain can use a type 2A window, but window and region must be in one domain.
  auto type_2a = request(memory_.window(KeyKind::kWindowType2A));
  type_2a.region_key = region_abroad;
  EXPECT_EQ(bind2(type_2a), BindRefusal::kOtherDomain);
  auto type_1 = request(memory_.window(KeyKind::kWindowType1));
  type_1.region_key = region_abroad;
  EXPECT_EQ(bind1(type_1), BindRefusal::kOtherDomain);
}

TEST_F(WindowTest, RefusesAnotherDomainsUnbind) {
  const auto bound = request(memory_.window(KeyKind::kWindowType1));
  ASSERT_EQ(bind1(bound), BindRefusal::kNone);
  EXPECT_EQ(bind1({.window_key = bound.new_key, .new_key = bound.new_key},
                  {.domain = kAbroad, .qp = kQp}),
            BindRefusal::kOtherDomain);
  EXPECT_EQ(write(bound.new_key), Refusal::kNone);
}

TEST_F(WindowTest, RefusesARegionThatIsNotThere) {
  const auto other_window = memory_.window(KeyKind::kWindowType2B);
  const auto bound = request(memory_.window(KeyKind::kWindowType2B));
  ASSERT_EQ(bind2(bound), BindRefusal::kNone);
  const auto gone = memory_.region(kEverything);
  ASSERT_TRUE(memory_.registry().deregister_region(gone).ok());
  auto bad = request(memory_.window(KeyKind::kWindowType2B));
  for (const wire::MemoryKey key : {wire::MemoryKey{0}, wire::MemoryKey{0xffff'ffff}, gone,
                                    KeyRegistry::next_key(region_), other_window, bound.new_key}) {
    bad.region_key = key;
    EXPECT_EQ(bind2(bad), BindRefusal::kNoSuchRegion) << static_cast<std::uint32_t>(key);
  }
}

TEST_F(WindowTest, RefusesAZeroBasedRegion) {
  region_ = memory_.region(kEverything | Access::kZeroBased);
  auto bad = request(memory_.window(KeyKind::kWindowType2B));
  bad.address = 0;
  EXPECT_EQ(bind2(bad), BindRefusal::kZeroBasedRegion);
}

TEST_F(WindowTest, RefusesARegionWithoutTheRightToBind) {
  region_ = memory_.region(Access::kLocalWrite | kReadWrite);
  EXPECT_EQ(bind2(request(memory_.window(KeyKind::kWindowType2B))), BindRefusal::kRegionDeniesBind);
}

TEST_F(WindowTest, RefusesAWritableWindowOnARegionThatItsOwnerMayNotWrite) {
  region_ = memory_.region(Access::kRemoteRead | Access::kBindWindow);
  auto bad = request(memory_.window(KeyKind::kWindowType2B));
  for (const Access access : {Access::kRemoteWrite, Access::kRemoteAtomic}) {
    bad.access = access;
    EXPECT_EQ(bind2(bad), BindRefusal::kRegionDeniesWrite);
  }
  bad.access = Access::kRemoteRead;
  EXPECT_EQ(bind2(bad), BindRefusal::kNone);
}

TEST_F(WindowTest, RefusesARangeThatLeavesTheRegion) {
  const std::uint64_t start = memory_.start();
  struct Row {
    std::uint64_t address;
    std::uint64_t octets;
  };
  auto bad = request(memory_.window(KeyKind::kWindowType2B));
  for (const Row& row : {Row{start - 1, 1}, Row{start - 1, 2}, Row{0, start + 1},
                         Row{start, TestMemory::kOctets + 1}, Row{start + TestMemory::kOctets, 1},
                         Row{start + 1, kTop}, Row{kTop, 1}, Row{kTop, 2}, Row{start, kTop},
                         Row{kTop - 3, start + 8}}) {
    bad.address = row.address;
    bad.octets = row.octets;
    EXPECT_EQ(bind2(bad), BindRefusal::kOutsideRegion) << row.address << '+' << row.octets;
  }
  EXPECT_EQ(windows_on_region(), 0U);
}

TEST_F(WindowTest, RefusesAType2WindowWithoutALength) {
  auto bad = request(memory_.window(KeyKind::kWindowType2B));
  bad.octets = 0;
  EXPECT_EQ(bind2(bad), BindRefusal::kEmptyRange);
}

TEST_F(WindowTest, RefusesRightsThatAWindowCannotHave) {
  auto type_2 = request(memory_.window(KeyKind::kWindowType2B));
  auto type_1 = request(memory_.window(KeyKind::kWindowType1));
  for (const Access access : {Access::kLocalWrite, Access::kBindWindow, Access::kOnDemand,
                              Access::kHugePages, Access::kFlushGlobal, Access{1U << 31}}) {
    type_2.access = type_1.access = kReadWrite | access;
    EXPECT_EQ(bind2(type_2), BindRefusal::kBadAccess);
    EXPECT_EQ(bind1(type_1), BindRefusal::kBadAccess);
  }
  type_1.access = kReadWrite | Access::kZeroBased;
  EXPECT_EQ(bind1(type_1), BindRefusal::kBadAccess);
}

TEST_F(WindowTest, ABindIsRefusedForItsFirstFault) {
  const auto taken = request(memory_.window(KeyKind::kWindowType2B));
  ASSERT_EQ(bind2(taken), BindRefusal::kNone);
  const auto type_1 = memory_.window(KeyKind::kWindowType1);
  const auto fresh = memory_.window(KeyKind::kWindowType2B);
  const auto plain = Access::kRemoteRead;
  const auto abroad = memory_.region(Access::kRemoteRead | Access::kZeroBased, kAbroad);
  const auto zero_based = memory_.region(plain | Access::kZeroBased);
  const auto no_bind = memory_.region(plain);
  BindRequest bad{.window_key = wire::MemoryKey{0},
                  .new_key = wire::MemoryKey{0},
                  .region_key = wire::MemoryKey{0},
                  .address = 0,
                  .octets = 0,
                  .access = kEverything};
  Binder binder{.domain = kAbroad, .qp = kQp};
  EXPECT_EQ(bind2(bad, binder), BindRefusal::kNoSuchWindow);
  bad.window_key = type_1;
  EXPECT_EQ(bind2(bad, binder), BindRefusal::kWrongWindowKey);
  bad.window_key = bad.new_key = type_1;
  EXPECT_EQ(bind2(bad, binder), BindRefusal::kOtherDomain);
  binder.domain = kHome;
  EXPECT_EQ(bind2(bad, binder), BindRefusal::kWrongWindowType);
  bad.window_key = bad.new_key = taken.new_key;
  EXPECT_EQ(bind2(bad, binder), BindRefusal::kAlreadyBound);
  bad.window_key = bad.new_key = fresh;
  EXPECT_EQ(bind2(bad, binder), BindRefusal::kEmptyRange);
  bad.octets = 1;
  EXPECT_EQ(bind2(bad, binder), BindRefusal::kBadAccess);
  bad.access = kReadWrite;
  EXPECT_EQ(bind2(bad, binder), BindRefusal::kNoSuchRegion);
  bad.region_key = abroad;
  EXPECT_EQ(bind2(bad, binder), BindRefusal::kOtherDomain);
  bad.region_key = zero_based;
  EXPECT_EQ(bind2(bad, binder), BindRefusal::kZeroBasedRegion);
  bad.region_key = no_bind;
  EXPECT_EQ(bind2(bad, binder), BindRefusal::kRegionDeniesBind);
  ASSERT_TRUE(memory_.registry().deregister_region(no_bind).ok());
  bad.region_key = memory_.region(plain | Access::kBindWindow);
  EXPECT_EQ(bind2(bad, binder), BindRefusal::kRegionDeniesWrite);
  bad.access = plain;
  EXPECT_EQ(bind2(bad, binder), BindRefusal::kOutsideRegion);
  bad.address = memory_.start();
  EXPECT_EQ(bind2(bad, binder), BindRefusal::kNone);
}

// Invalidation.

TEST_F(WindowTest, InvalidatingAWindowFreesItsRegion) {
  const auto bound = request(memory_.window(KeyKind::kWindowType2B));
  ASSERT_EQ(bind2(bound), BindRefusal::kNone);
  EXPECT_EQ(memory_.registry().deregister_region(region_).error(), Errc::kBusy);
  ASSERT_EQ(drop(bound.new_key), BindRefusal::kNone);
  EXPECT_EQ(write(bound.new_key), Refusal::kInvalidated);
  EXPECT_TRUE(memory_.registry().deregister_region(region_).ok());
}

TEST_F(WindowTest, RefusesToInvalidateWhatIsNotThere) {
  EXPECT_EQ(drop(wire::MemoryKey{0}), BindRefusal::kNoSuchWindow);
  EXPECT_EQ(drop(wire::MemoryKey{0xffff'ffff}), BindRefusal::kNoSuchWindow);
  const auto window = memory_.window(KeyKind::kWindowType2B);
  ASSERT_TRUE(memory_.registry().free_window(window).ok());
  EXPECT_EQ(drop(window), BindRefusal::kNoSuchWindow);
}

TEST_F(WindowTest, RefusesToInvalidateARegionOrAType1Window) {
  EXPECT_EQ(drop(region_), BindRefusal::kNotInvalidatable);
  const auto bound = request(memory_.window(KeyKind::kWindowType1));
  ASSERT_EQ(bind1(bound), BindRefusal::kNone);
  EXPECT_EQ(drop(bound.new_key), BindRefusal::kNotInvalidatable);
  EXPECT_EQ(write(bound.new_key), Refusal::kNone);
}

TEST_F(WindowTest, RefusesToInvalidateAWindowThatIsNotBound) {
  const auto window = memory_.window(KeyKind::kWindowType2B);
  EXPECT_EQ(drop(window), BindRefusal::kNotInvalidatable);
  const auto bound = request(window);
  ASSERT_EQ(bind2(bound), BindRefusal::kNone);
  ASSERT_EQ(drop(bound.new_key), BindRefusal::kNone);
  EXPECT_EQ(drop(bound.new_key), BindRefusal::kNotInvalidatable);
  EXPECT_EQ(windows_on_region(), 0U);
}

TEST_F(WindowTest, RefusesToInvalidateByAnEarlierKey) {
  const auto bound = request(memory_.window(KeyKind::kWindowType2B));
  ASSERT_EQ(bind2(bound), BindRefusal::kNone);
  EXPECT_EQ(drop(bound.window_key), BindRefusal::kWrongWindowKey);
  EXPECT_EQ(write(bound.new_key), Refusal::kNone);
}

TEST_F(WindowTest, RefusesToInvalidateAWindowOfAnotherQueuePair) {
  for (const auto kind : {KeyKind::kWindowType2A, KeyKind::kWindowType2B}) {
    const auto bound = request(memory_.window(kind));
    ASSERT_EQ(bind2(bound), BindRefusal::kNone);
    EXPECT_EQ(drop(bound.new_key, {.domain = kHome, .qp = kOtherQp}), BindRefusal::kOtherQueuePair);
    EXPECT_EQ(write(bound.new_key), Refusal::kNone);
  }
}

TEST_F(WindowTest, ADomainMattersToTheInvalidationOfType2BOnly) {
  const auto type_2b = request(memory_.window(KeyKind::kWindowType2B));
  ASSERT_EQ(bind2(type_2b), BindRefusal::kNone);
  EXPECT_EQ(drop(type_2b.new_key, {.domain = kAbroad, .qp = kQp}), BindRefusal::kOtherDomain);
  const auto type_2a = request(memory_.window(KeyKind::kWindowType2A));
  ASSERT_EQ(bind2(type_2a), BindRefusal::kNone);
  EXPECT_EQ(drop(type_2a.new_key, {.domain = kAbroad, .qp = kQp}), BindRefusal::kNone);
}

// Regions and their windows.

TEST_F(WindowTest, ARegionStaysWhileAnyWindowIsBoundToIt) {
  const auto one = request(memory_.window(KeyKind::kWindowType2B));
  const auto other = request(memory_.window(KeyKind::kWindowType1));
  ASSERT_EQ(bind2(one), BindRefusal::kNone);
  ASSERT_EQ(bind1(other), BindRefusal::kNone);
  EXPECT_EQ(memory_.registry().deregister_region(region_).error(), Errc::kBusy);
  ASSERT_EQ(drop(one.new_key), BindRefusal::kNone);
  EXPECT_EQ(memory_.registry().deregister_region(region_).error(), Errc::kBusy);
  EXPECT_EQ(write(region_), Refusal::kNone);  // the refused call has changed nothing
  ASSERT_TRUE(memory_.registry().free_window(other.new_key).ok());
  EXPECT_TRUE(memory_.registry().deregister_region(region_).ok());
}

TEST_F(WindowTest, AFreedWindowLosesAccessAtOnce) {
  for (const auto kind : {KeyKind::kWindowType1, KeyKind::kWindowType2A, KeyKind::kWindowType2B}) {
    const auto bound = request(memory_.window(kind));
    ASSERT_EQ(kind == KeyKind::kWindowType1 ? bind1(bound) : bind2(bound), BindRefusal::kNone);
    ASSERT_TRUE(memory_.registry().free_window(bound.new_key).ok());
    EXPECT_EQ(write(bound.new_key), Refusal::kNoSuchKey);
    EXPECT_EQ(windows_on_region(), 0U);
    EXPECT_EQ(memory_.registry().free_window(bound.new_key).error(), Errc::kInvalidArgument);
  }
}

TEST_F(WindowTest, ALookUpDuringARebindGetsOneBindingOrTheOther) {
  // Two ranges of one region under one key. A mixture of them would end outside of the region.
  const auto window = memory_.window(KeyKind::kWindowType1);
  const std::uint64_t start = memory_.start();
  BindRequest low = request(window);
  low.new_key = window;
  low.address = start;
  low.octets = TestMemory::kOctets - 64;
  BindRequest high = low;
  high.address = start + TestMemory::kOctets - 64;
  high.octets = 64;
  ASSERT_EQ(bind1(low), BindRefusal::kNone);
  std::atomic<bool> done = false;
  std::uint64_t granted = 0;
  std::uint64_t misplaced = 0;
  std::thread peer([&] {
    auto want = memory_.want(window);
    while (!done.load()) {
      for (const std::uint64_t offset : {0U, 64U, 4000U, 4032U, 4095U}) {
        want.address = start + offset;
        const auto grant = memory_.table().check_remote(want);
        if (!grant) continue;
        ++granted;
        if (grant->address != want.address) ++misplaced;
      }
    }
  });
  for (int round = 0; round < 100'000; ++round) {
    EXPECT_EQ(bind1(round % 2 == 0 ? high : low), BindRefusal::kNone);
  }
  done = true;
  peer.join();
  EXPECT_EQ(misplaced, 0U) << "of " << granted;
  EXPECT_EQ(windows_on_region(), 1U);
}

TEST(BindRefusal, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kBindRefusalCount; ++i) {
    names.insert(name_of(BindRefusal(static_cast<std::uint8_t>(i))));
  }
  EXPECT_EQ(names.size(), kBindRefusalCount);
  EXPECT_EQ(names.count("?"), 0U);
  EXPECT_STREQ(name_of(BindRefusal(static_cast<std::uint8_t>(kBindRefusalCount))), "?");
}

// A bind does not take the adapter's lock. Another thread changes the region at the same moment:

class WindowBoundMeanwhile : public testing::Test {
 protected:
  static constexpr int kRounds = 1000;

  /// Binds the window while `other` runs in another thread; both begin at the same moment.
  template <typename Other>
  BindRefusal bind_against(Other&& other) {
    std::atomic<int> here{0};
    const auto meet = [&] {
      ++here;
      while (here < 2) std::this_thread::yield();
    };
    std::thread thread([&] {
      meet();
      other();
    });
    meet();
    const BindRefusal refused = bind_type2(memory_.table(), kBinder,
                                           {.window_key = window_,
                                            .new_key = KeyRegistry::next_key(window_),
                                            .region_key = region_,
                                            .address = memory_.start(),
                                            .octets = 64,
                                            .access = kReadWrite});
    thread.join();
    if (refused == BindRefusal::kNone) window_ = KeyRegistry::next_key(window_);
    return refused;
  }
  [[nodiscard]] const KeyEntry& window() const { return memory_.entry_of(window_); }

  TestMemory memory_;
  // The window comes first in the table, so close() looks at it first.
  wire::MemoryKey window_ = memory_.window(KeyKind::kWindowType2B);
  wire::MemoryKey region_ = memory_.region(kEverything);
};

TEST_F(WindowBoundMeanwhile, IsNotSharedWhenItsRegionIsNotAnyMore) {
  for (int round = 0; round < kRounds; ++round) {
    memory_.registry().change_backing(region_, Backing::kShared, 0x7000);
    ASSERT_EQ(
        bind_against([&] { memory_.registry().change_backing(region_, Backing::kPrivate, 0); }),
        BindRefusal::kNone);
    ASSERT_EQ(window().status.backing, Backing::kPrivate) << round;
    ASSERT_EQ(invalidate(memory_.table(), kBinder, window_), BindRefusal::kNone);
  }
}

TEST_F(WindowBoundMeanwhile, DoesNotWorkWhenTheMemoryWasUnmapped) {
  for (int round = 0; round < kRounds; ++round) {
    (void)bind_against([&] {
      (void)memory_.registry().close(memory_.start(), memory_.start() + TestMemory::kOctets);
    });
    ASSERT_EQ(load_live(window()), 0U) << round;
    ASSERT_EQ(memory_.entry_of(region_).bound, 0U) << round;
    ASSERT_TRUE(memory_.registry().deregister_region(region_).ok());
    region_ = memory_.region(kEverything);
  }
}

TEST_F(WindowBoundMeanwhile, KeepsItsRegionOrIsRefused) {
  for (int round = 0; round < kRounds; ++round) {
    bool is_gone = false;
    const BindRefusal refused =
        bind_against([&] { is_gone = memory_.registry().deregister_region(region_).ok(); });
    const bool is_bound = refused == BindRefusal::kNone;
    ASSERT_FALSE(is_bound && is_gone) << round;
    ASSERT_EQ(load_live(window()) != 0, is_bound);
    if (is_bound) {
      ASSERT_EQ(load_live(memory_.entry_of(region_)), static_cast<std::uint32_t>(region_));
      ASSERT_EQ(invalidate(memory_.table(), kBinder, window_), BindRefusal::kNone);
    }
    ASSERT_EQ(memory_.entry_of(region_).bound, 0U);
    if (is_gone) region_ = memory_.region(kEverything);
  }
}

TEST_F(WindowTest, ABindThatFindsItsRegionClosedLeavesTheWindowAsItWas) {
  const auto window = memory_.window(KeyKind::kWindowType2B);
  EXPECT_EQ(memory_.registry().close(memory_.start(), memory_.start() + 1),
            KeyRegistry::Closed::kNow);
  EXPECT_EQ(bind2(request(window)), BindRefusal::kNoSuchRegion);
  EXPECT_EQ(memory_.entry_of(window).key, static_cast<std::uint32_t>(window));
  EXPECT_EQ(windows_on_region(), 0U);
}

}  // namespace
}  // namespace verbatim::memory
