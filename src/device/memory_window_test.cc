// SPDX-License-Identifier: Apache-2.0
#include "device/memory_window.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/test_memory_world.h"

namespace verbatim::device {
namespace {

constexpr auto kHome = TestMemoryWorld::kHome;
constexpr auto kEverything = memory::TestMemory::kEverything;

/// Binds the window to all of the region, and returns its new key.
wire::MemoryKey bind(TestMemoryWorld& world, const MemoryWindow& window, wire::MemoryKey region) {
  const auto key = memory::KeyRegistry::next_key(window.first_key());
  EXPECT_EQ(memory::bind_type1(world.memory.table(), {.domain = kHome},
                               {.window_key = window.first_key(),
                                .new_key = key,
                                .region_key = region,
                                .address = world.memory.start(),
                                .octets = memory::TestMemory::kOctets,
                                .access = memory::Access::kRemoteWrite}),
            memory::BindRefusal::kNone);
  return key;
}

TEST(MemoryWindow, TheEndUnbindsItAndWaitsForPeersBeforeTheDomainIsFree) {
  TestMemoryWorld world;
  const auto region = world.memory.region(kEverything);
  auto window = MemoryWindow::create(world.parts(), kHome, memory::KeyKind::kWindowType1);
  ASSERT_TRUE(window.ok());
  const auto key = bind(world, *window, region);
  EXPECT_TRUE(world.admits(key));
  world.on_await = [&] {
    EXPECT_FALSE(world.admits(key));
    EXPECT_TRUE(world.is_in_use(kHome));
  };
  ASSERT_TRUE(window->destroy().ok());
  EXPECT_EQ(world.waits, std::vector<std::string>{"accesses"});
  EXPECT_FALSE(world.is_in_use(kHome));
  EXPECT_TRUE(world.admits(region));
  EXPECT_TRUE(world.memory.registry().deregister_region(region).ok()) << "no window is bound to it";
}

TEST(MemoryWindow, NothingIsLeftOfAWindowThatTheTableHasNoRoomFor) {
  TestMemoryWorld world(1);
  const auto region = world.memory.region(kEverything);
  EXPECT_EQ(MemoryWindow::create(world.parts(), kHome, memory::KeyKind::kWindowType2B).error(),
            Errc::kNoMemory);
  EXPECT_FALSE(world.is_in_use(kHome));
  EXPECT_TRUE(world.admits(region));
}

}  // namespace
}  // namespace verbatim::device
