// SPDX-License-Identifier: Apache-2.0
#include "device/memory_region.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/pointer.h"
#include "device/test_memory_world.h"

namespace verbatim::device {
namespace {

using memory::Access;
using Waits = std::vector<std::string>;

constexpr auto kHome = TestMemoryWorld::kHome;
constexpr auto kAbroad = TestMemoryWorld::kAbroad;
constexpr auto kEverything = memory::TestMemory::kEverything;

/// Memory of the program that a test may protect and unmap.
class Pages {
 public:
  explicit Pages(int protection = PROT_READ | PROT_WRITE)
      : octets_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
        at_(::mmap(nullptr, octets_, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { unmap(); }

  void unmap() {
    if (at_ != nullptr) ::munmap(at_, octets_);
    at_ = nullptr;
  }
  [[nodiscard]] MemoryRegion::Place place() const {
    return {.address = numeric_address(at_), .octets = octets_};
  }

 private:
  std::size_t octets_;
  void* at_;
};

class MemoryRegionTest : public ::testing::Test {
 protected:
  [[nodiscard]] MemoryRegion::Place first_half() const {
    return {.address = world.memory.start(), .octets = memory::TestMemory::kOctets / 2};
  }
  [[nodiscard]] MemoryRegion::Setup setup() const {
    return {.domain = kHome,
            .place = first_half(),
            .base = world.memory.start(),
            .access = kEverything};
  }
  [[nodiscard]] std::unique_ptr<MemoryRegion> make(const MemoryRegion::Setup& setup) {
    auto region = MemoryRegion::create(world.parts(), setup);
    EXPECT_TRUE(region.ok());
    return region ? std::move(*region) : nullptr;
  }
  /// A window on the first octets of the region.
  [[nodiscard]] bool bind_window(const MemoryRegion& region) {
    const auto window = world.memory.window(memory::KeyKind::kWindowType1);
    return memory::bind_type1(world.memory.table(), {.domain = kHome},
                              {.window_key = window,
                               .new_key = memory::KeyRegistry::next_key(window),
                               .region_key = region.key(),
                               .address = world.memory.start(),
                               .octets = 8,
                               .access = Access::kRemoteRead}) == memory::BindRefusal::kNone;
  }

  TestMemoryWorld world;
};

TEST_F(MemoryRegionTest, TheKeyIsValidAndTheDomainInUseFromCreationToTheEnd) {
  auto region = make(setup());
  EXPECT_TRUE(world.admits(region->key()));
  EXPECT_TRUE(world.is_in_use(kHome));
  EXPECT_TRUE(world.waits.empty());
  ASSERT_TRUE(region->destroy().ok());
  EXPECT_FALSE(world.admits(region->key()));
  EXPECT_FALSE(world.is_in_use(kHome));
}

TEST_F(MemoryRegionTest, NothingIsLeftOfARegistrationThatFails) {
  auto contradictory = setup();
  contradictory.access = Access::kRemoteWrite;  // needs the local right
  EXPECT_EQ(MemoryRegion::create(world.parts(), contradictory).error(), Errc::kInvalidArgument);
  Pages pages;
  auto unmapped = setup();
  unmapped.place = pages.place();
  pages.unmap();
  EXPECT_EQ(MemoryRegion::create(world.parts(), unmapped).error(), Errc::kFault);
  EXPECT_FALSE(world.is_in_use(kHome));
  EXPECT_EQ(world.memory.registry().used_count(), 0U);
}

TEST_F(MemoryRegionTest, MemoryThatTheProgramMayOnlyReadIsNotRegisteredForWriting) {
  const Pages pages(PROT_READ);
  auto wanted = setup();
  wanted.place = pages.place();
  for (const Access writing : {Access::kLocalWrite, Access::kLocalWrite | Access::kRemoteWrite,
                               Access::kLocalWrite | Access::kRemoteAtomic, Access::kBindWindow}) {
    wanted.access = writing;
    EXPECT_EQ(MemoryRegion::create(world.parts(), wanted).error(), Errc::kFault);
  }
  wanted.access = Access::kRemoteRead;
  auto region = make(wanted);
  EXPECT_EQ(region->change({.access = Access::kLocalWrite}).error(), Errc::kFault);
  EXPECT_TRUE(region->change({.access = Access::kNone}).ok());
  EXPECT_TRUE(region->destroy().ok());
}

// The order at the end.

TEST_F(MemoryRegionTest, TheEndWaitsForPeersWhenTheKeyIsInvalidAndBeforeTheDomainIsFree) {
  auto region = make(setup());
  world.on_await = [&] {
    EXPECT_FALSE(world.admits(region->key()));
    EXPECT_TRUE(world.is_in_use(kHome));
  };
  world.on_await_calls = [&](auto& lock) {
    EXPECT_TRUE(lock.is_held());
    EXPECT_TRUE(world.is_in_use(kHome));
  };
  ASSERT_TRUE(region->destroy().ok());
  EXPECT_EQ(world.waits, (Waits{"accesses", "calls"}));
  EXPECT_EQ(world.awaited, std::pair(first_half().address, std::uint64_t{first_half().octets}));
}

TEST_F(MemoryRegionTest, AStoppedPeerDoesNotKeepTheRegistrationFromEnding) {
  auto region = make(setup());
  world.has_left = false;
  ASSERT_TRUE(region->destroy().ok());
  EXPECT_FALSE(world.is_in_use(kHome));
}

TEST_F(MemoryRegionTest, AnotherRegistrationMayBeginAndEndWhileCallsAreAwaited) {
  auto region = make(setup());
  std::unique_ptr<MemoryRegion> other;
  bool has_begun = false;
  world.on_await_calls = [&](auto& lock) {
    if (std::exchange(has_begun, true)) return;
    lock.unlock();
    auto passing = make(setup());
    other = make(setup());
    EXPECT_TRUE(passing->destroy().ok());
    lock.lock();
  };
  ASSERT_TRUE(region->destroy().ok());
  ASSERT_NE(other, nullptr);
  EXPECT_TRUE(world.admits(other->key()));
  EXPECT_TRUE(world.is_in_use(kHome));
  ASSERT_TRUE(other->destroy().ok());
  EXPECT_FALSE(world.is_in_use(kHome));
}

TEST_F(MemoryRegionTest, ARegionWithAWindowStaysRegisteredAndIsNotWaitedFor) {
  auto region = make(setup());
  ASSERT_TRUE(bind_window(*region));
  EXPECT_EQ(region->destroy().error(), Errc::kBusy);
  EXPECT_TRUE(world.admits(region->key()));
  EXPECT_TRUE(world.is_in_use(kHome));
  EXPECT_TRUE(world.waits.empty());
}

// Changes.

TEST_F(MemoryRegionTest, AChangeKeepsTheKeyAndWaitsForAccessesToTheOldMemory) {
  auto region = make(setup());
  const wire::MemoryKey key = region->key();
  const Pages pages;
  world.on_await = [&] {
    EXPECT_FALSE(world.admits(key)) << "the key names the new memory already";
    EXPECT_TRUE(world.is_in_use(kHome)) << "the old memory belongs to the region until the end";
  };
  ASSERT_TRUE(region->change({.domain = kAbroad, .place = pages.place()}).ok());
  EXPECT_EQ(world.waits, (Waits{"accesses", "calls"}));
  EXPECT_EQ(world.awaited, std::pair(first_half().address, std::uint64_t{first_half().octets}));
  EXPECT_EQ(region->key(), key);
  const auto& entry = world.memory.entry_of(key);
  EXPECT_EQ(entry.local, pages.place().address);
  EXPECT_EQ(entry.base, pages.place().address);
  EXPECT_EQ(entry.access, kEverything);
  EXPECT_FALSE(world.is_in_use(kHome));
  EXPECT_TRUE(world.is_in_use(kAbroad));
  // The next end is that of the new memory.
  world.on_await = [] {};
  ASSERT_TRUE(region->destroy().ok());
  EXPECT_EQ(world.awaited.first, pages.place().address);
  EXPECT_FALSE(world.is_in_use(kAbroad));
}

TEST_F(MemoryRegionTest, AChangeOfRightsKeepsTheMemoryAndTheAddressesOfRequests) {
  auto wanted = setup();
  wanted.base = 0x1000;
  auto region = make(wanted);
  ASSERT_TRUE(region->change({.access = Access::kRemoteRead}).ok());
  const auto& entry = world.memory.entry_of(region->key());
  EXPECT_EQ(entry.local, first_half().address);
  EXPECT_EQ(entry.base, 0x1000U);
  EXPECT_EQ(entry.access, Access::kRemoteRead);
  EXPECT_TRUE(region->destroy().ok());
}

TEST_F(MemoryRegionTest, AChangeThatFailsLeavesTheRegistrationAsItWas) {
  auto region = make(setup());
  Pages unmapped;
  const auto nowhere = unmapped.place();
  unmapped.unmap();
  const auto is_as_it_was = [&] {
    return world.admits(region->key()) && world.is_in_use(kHome) && !world.is_in_use(kAbroad) &&
           world.waits.empty();
  };
  EXPECT_EQ(region->change({.domain = kAbroad, .place = nowhere}).error(), Errc::kFault);
  EXPECT_TRUE(is_as_it_was());
  EXPECT_EQ(region->change({.domain = kAbroad, .access = Access::kRemoteWrite}).error(),
            Errc::kInvalidArgument);
  EXPECT_TRUE(is_as_it_was());
  ASSERT_TRUE(bind_window(*region));
  const Pages pages;
  EXPECT_EQ(region->change({.domain = kAbroad, .place = pages.place()}).error(), Errc::kBusy);
  EXPECT_TRUE(is_as_it_was());
}

TEST_F(MemoryRegionTest, ARegionWhoseMemoryIsGoneWorksAgainOnlyInAnotherPlace) {
  auto region = make(setup());
  const auto place = first_half();
  (void)world.memory.registry().close(place.address, place.address + place.octets);
  EXPECT_FALSE(world.admits(region->key()));
  ASSERT_TRUE(region->change({.access = kEverything}).ok());
  EXPECT_FALSE(world.admits(region->key()));
  ASSERT_TRUE(region->change({.place = place}).ok());
  EXPECT_TRUE(world.admits(region->key()));
  EXPECT_TRUE(region->destroy().ok());
}

}  // namespace
}  // namespace verbatim::device
