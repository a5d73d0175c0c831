// SPDX-License-Identifier: Apache-2.0
// What a program may do with memory after it has moved: no octet is lost, and no other memory
// appears in it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>

#include "base/pointer.h"
#include "rehome/maps_file.h"
#include "rehome/test_moving.h"

namespace verbatim::rehome {
namespace {

using test::Memory;
using test::page;

class MovedMemory : public test::Moving {
 protected:
  /// Stores this octet to every page, and moves the pages into the arena without a region.
  void put(std::byte* at, std::size_t pages, char octet) {
    for (std::size_t i = 0; i < pages; ++i) at[i * page()] = std::byte(octet);
    const auto begin = numeric_address(at);
    rehoming_.drop(move_in({.begin = begin, .end = begin + pages * page()}));
  }
  /// Page by page: moved memory has several mappings, which the kernel does not move at once.
  static bool relocate(std::byte* from, std::byte* to, std::size_t pages, int more_flags = 0) {
    for (std::size_t i = 0; i < pages; ++i) {
      std::byte* const target = to + i * page();
      const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | more_flags;
      if (::mremap(from + i * page(), page(), page(), flags, target) != target) return false;
    }
    return true;
  }
  static bool has(const std::byte* at, std::size_t pages, char octet) {
    for (std::size_t i = 0; i < pages; ++i) {
      if (at[i * page()] != std::byte(octet)) return false;
    }
    return true;
  }
};

VB_WITH_EVERY_TAKING(MovedMemory);

TEST_P(MovedMemory, ThatIsMovedAwayOutlivesOtherMemoryAtItsAddress) {
  const Memory memory(2 * page());
  const Memory other(2 * page());
  put(memory.data(), 2, 'a');
  ASSERT_TRUE(relocate(memory.data(), other.data(), 2));
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  ASSERT_EQ(::mmap(memory.data(), 2 * page(), PROT_READ | PROT_WRITE, kFlags, -1, 0),
            memory.data());
  ASSERT_TRUE(rehoming_.watch(memory.range()));
  ASSERT_EQ(::munmap(memory.data(), 2 * page()), 0);
  rehoming_.unwatch(memory.range());
  EXPECT_TRUE(has(other.data(), 2, 'a'));
}

TEST_P(MovedMemory, MayChangePlaces) {
  const Memory first(2 * page());
  const Memory second(2 * page());
  const Memory third(2 * page());
  put(first.data(), 2, 'a');
  put(second.data(), 2, 'b');
  ASSERT_TRUE(relocate(first.data(), third.data(), 2));
  ASSERT_TRUE(relocate(second.data(), first.data(), 2));
  ASSERT_TRUE(relocate(third.data(), second.data(), 2));
  ASSERT_EQ(::munmap(second.data(), 2 * page()), 0);
  (void)rehoming_.moved_octets();  // handles all departures
  EXPECT_TRUE(has(first.data(), 2, 'b'));
}

TEST_P(MovedMemory, OfManyMappingsSurvivesMoreUnmappingsThanAreRemembered) {
  constexpr std::size_t kRegions = 100;
  const Memory memory(kRegions * 2 * page());
  for (std::size_t i = 0; i < kRegions; ++i) put(memory.data() + i * 2 * page(), 2, 'a');
  constexpr std::size_t kUnmappings = 1100;
  const Memory other(2 * kUnmappings * page());
  ASSERT_TRUE(rehoming_.watch(other.range()));
  for (std::size_t i = 0; i < kUnmappings; ++i) {
    ASSERT_EQ(::munmap(other.data() + 2 * i * page(), page()), 0);
  }
  (void)rehoming_.moved_octets();
  EXPECT_TRUE(has(memory.data(), kRegions * 2, 'a'));
}

TEST_P(MovedMemory, DoesNotGrowIntoMemoryThatWasItsEnd) {
  const Memory memory(8 * page());
  put(memory.data(), 8, 'a');
  const auto placement = move_in(memory.range());
  ASSERT_EQ(::munmap(memory.data() + 4 * page(), 4 * page()), 0);
  void* const grown = ::mremap(memory.data(), 4 * page(), 8 * page(), 0);
  if (grown != MAP_FAILED) {
    EXPECT_TRUE(has(memory.data() + 4 * page(), 4, 0));
  }
  EXPECT_TRUE(has(memory.data(), 4, 'a'));
  rehoming_.drop(placement);
  EXPECT_TRUE(has(memory.data(), 4, 'a'));
}

/// An observer whose regions still contain what the program unmaps.
constexpr Watch::Observer kNeedsAll{.handle_unmap = [](void*, Range) noexcept { return true; }};

/// The neighbours of an unmapped range do not grow at all: the kernel would let them grow over
/// pages of the arena, and the region needs the pages that belong to the range.
TEST_P(MovedMemory, DoesNotGrowIntoPagesThatARegionNeeds) {
  ASSERT_TRUE(rehoming_.add_observer(kNeedsAll));
  const Memory memory(8 * page());
  put(memory.data(), 8, 'a');
  const auto placement = move_in(memory.range());
  void* const view = ::mmap(nullptr, 8 * page(), PROT_READ, MAP_SHARED,
                            rehoming_.arena().descriptor(), static_cast<off_t>(placement.offset));
  ASSERT_NE(view, MAP_FAILED);
  ASSERT_EQ(::munmap(memory.data() + 4 * page(), 4 * page()), 0);
  EXPECT_EQ(::mremap(memory.data(), 4 * page(), 8 * page(), 0), MAP_FAILED);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_TRUE(has(memory.data(), 4, 'a'));
  EXPECT_TRUE(has(static_cast<const std::byte*>(view), 8, 'a')) << "the pages of the region";
  ::munmap(view, 8 * page());
  rehoming_.drop(placement);
  rehoming_.remove_observer(kNeedsAll);
}

/// The program has closed the library's descriptors and may open no others, so the mappings of the
/// process cannot be read.
TEST_P(MovedMemory, IsNotFreedWhileMappingsCannotBeRead) {
  ASSERT_TRUE(rehoming_.add_observer(kNeedsAll));
  const Memory memory(8 * page());
  put(memory.data(), 8, 'a');
  const auto placement = move_in(memory.range());
  ASSERT_EQ(::munmap(memory.data(), 8 * page()), 0);
  const std::size_t before = test::arena_octets(rehoming_);
  const int maps = MapsFile::of_process().number();
  ASSERT_GE(maps, 0);
  const int kept = ::dup(maps);
  ::close(maps);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  rehoming_.drop(placement);
  EXPECT_EQ(test::arena_octets(rehoming_), before);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_EQ(::dup2(kept, maps), maps);
  ::close(kept);
  rehoming_.remove_observer(kNeedsAll);
}

TEST_P(MovedMemory, ThatIsLockedIsNotEmptied) {
  const Memory memory(6 * page());
  put(memory.data(), 6, 'a');
  // Not mlock(3), which the sanitizers replace by a function that does nothing.
  if (::syscall(SYS_mlock, memory.data() + 2 * page(), page()) != 0) {
    GTEST_SKIP() << "no memory may be locked";
  }
  EXPECT_NE(::madvise(memory.data(), 6 * page(), MADV_DONTNEED), 0);
  EXPECT_TRUE(has(memory.data(), 2, 0));
  EXPECT_TRUE(has(memory.data() + 2 * page(), 4, 'a'));
}

TEST_P(MovedMemory, IsNotSeenAtTwoAddresses) {
  const Memory memory(2 * page());
  const Memory other(2 * page());
  put(memory.data(), 2, 'a');
  if (!relocate(memory.data(), other.data(), 2, MREMAP_DONTUNMAP)) {
    GTEST_SKIP() << "the kernel does not do that";
  }
  EXPECT_TRUE(has(memory.data(), 2, 0));
  EXPECT_TRUE(has(other.data(), 2, 'a'));
  memory.data()[0] = std::byte('b');
  EXPECT_TRUE(has(other.data(), 2, 'a'));
}

/// A process whose descriptors are all in use can fork.
TEST_P(MovedMemory, IsInheritedWhereNoDescriptorIsLeft) {
  const Memory memory(4 * page());
  put(memory.data(), 4, 'a');
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  rehoming_.lock_for_fork();
  rehoming_.prepare_fork(rehoming_.fork_mode());
  const pid_t child = ::fork();
  if (child == 0) {
    rehoming_.after_fork_in_child();
    ::_exit(has(memory.data(), 4, 'a') ? 0 : 1);
  }
  rehoming_.after_fork_in_parent();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(has(memory.data(), 4, 'a'));
}

TEST_P(MovedMemory, IsNotMovedWithTheStackThatIsInUse) {
  alignas(4096) static std::array<std::byte, 64 * 4096> stack;
  const auto begin = numeric_address(stack.data());
  stack_t alternate{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  stack_t before{};
  ASSERT_EQ(::sigaltstack(&alternate, &before), 0);
  const auto placement = rehoming_.move_in({.begin = begin, .end = begin + stack.size()});
  ASSERT_EQ(::sigaltstack(&before, nullptr), 0);
  ASSERT_FALSE(placement.ok());
}

}  // namespace
}  // namespace verbatim::rehome
