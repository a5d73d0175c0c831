// SPDX-License-Identifier: Apache-2.0
// Memory that does not move, and the reasons.
#include "rehome/survey.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <array>
#include <cstdio>
#include <new>
#include <thread>
#include <vector>

#include "base/pointer.h"
#include "rehome/test_moving.h"

namespace verbatim::rehome {
namespace {

using test::kMebi;
using test::Memory;
using test::page;

Range range_of(const void* begin, std::size_t octets) {
  const auto address = numeric_address(begin);
  return {.begin = address, .end = address + octets};
}

class NotMoved : public test::Moving {};

TEST_P(NotMoved, AreFiles) {
  std::FILE* const stream = std::tmpfile();
  ASSERT_NE(stream, nullptr);
  const int file = ::fileno(stream);
  ASSERT_EQ(::ftruncate(file, static_cast<off_t>(4 * page())), 0);
  for (const int flags : {MAP_PRIVATE, MAP_SHARED}) {
    void* memory = ::mmap(nullptr, 4 * page(), PROT_READ | PROT_WRITE, flags, file, 0);
    ASSERT_NE(memory, MAP_FAILED);
    EXPECT_STREQ(refusal(range_of(memory, 4 * page())), to_text(Why::kFileBacked));
    ::munmap(memory, 4 * page());
  }
  std::fclose(stream);
}

TEST_P(NotMoved, IsMemoryThatTheProgramShares) {
  const Memory memory(4 * page(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  const char* why = refusal(memory.range());
  ASSERT_NE(why, nullptr);
}

TEST_P(NotMoved, IsTheStackOfAnyThread) {
  std::array<std::byte, 64 * 1024> local;
  EXPECT_STREQ(refusal(range_of(local.data(), local.size())), to_text(Why::kStack));
  std::thread([&] {
    std::array<std::byte, 64 * 1024> its_own;
    EXPECT_STREQ(refusal(range_of(its_own.data(), its_own.size())), to_text(Why::kStack));
  }).join();
}

TEST_P(NotMoved, IsUnmappedMemory) {
  if (test::kIsSanitized) GTEST_SKIP() << "the sanitizer maps memory of its own into the hole";
  const Memory memory(4 * page());
  ASSERT_EQ(::munmap(memory.data() + page(), page()), 0);
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kNotThere));
  EXPECT_STREQ(refusal(memory.part(0, 5 * page())), to_text(Why::kNotThere));
  EXPECT_STREQ(refusal({.begin = page(), .end = 9 * page()}), to_text(Why::kNotThere));
  EXPECT_EQ(refusal(memory.part(0, page())), nullptr);
  ASSERT_EQ(::mprotect(memory.data() + 2 * page(), page(), PROT_NONE), 0);
  EXPECT_STREQ(refusal(memory.part(2 * page(), 2 * page())), to_text(Why::kNotThere));
}

TEST_P(NotMoved, IsAnAddressWithoutMemory) {
  const std::uintptr_t top = ~std::uintptr_t{0};
  EXPECT_NE(refusal({.begin = top - 16 * page(), .end = top}), nullptr);
  EXPECT_NE(refusal({.begin = std::uintptr_t{1} << 60, .end = (std::uintptr_t{1} << 60) + 4096}),
            nullptr);
}

TEST_P(NotMoved, IsCode) {
  const Memory memory(4 * page(), PROT_READ | PROT_WRITE | PROT_EXEC);
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kExecutable));
}

TEST_P(NotMoved, AreLockedPages) {
  const Memory memory(4 * page());
  // Sanitizers replace mlock(3).
  if (::syscall(SYS_mlock, memory.data() + page(), page()) != 0) {
    GTEST_SKIP() << "the system locks no memory";
  }
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kLocked));
  ASSERT_EQ(::syscall(SYS_munlock, memory.data() + page(), page()), 0);
  EXPECT_EQ(refusal(memory.range()), nullptr);
}

TEST_P(NotMoved, AreBoundPages) {
  const Memory memory(4 * page());
  const unsigned long nodes = 1;
  if (::syscall(SYS_mbind, memory.data(), memory.octets(), MPOL_BIND, &nodes, 8 * sizeof nodes,
                0) != 0) {
    GTEST_SKIP() << "the system binds no memory";
  }
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kBound));
}

/// A page that moved would lose its protection key, and with it the program's protection.
TEST_P(NotMoved, ArePagesOfAProgramWithProtectionKeys) {
  constexpr int kKeysMax = 15;
  const Memory memory(4 * page());
  std::vector<long> keys;
  while (static_cast<int>(keys.size()) < kKeysMax) {
    const long key = ::syscall(SYS_pkey_alloc, 0, 0);
    if (key < 0) break;
    keys.push_back(key);
  }
  if (keys.empty()) GTEST_SKIP() << "the system has no protection keys";
  const auto give_key = [&](long key) {
    ASSERT_EQ(::syscall(SYS_pkey_mprotect, memory.data(), page(), PROT_READ | PROT_WRITE, key), 0);
  };
  give_key(keys.back());
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kProtectionKey)) << "no key is free";
  const long highest = keys.back();
  keys.pop_back();
  for (; keys.size() > 1; keys.pop_back()) ::syscall(SYS_pkey_free, keys.back());
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kProtectionKey)) << "two keys are in use";
  if (!keys.empty()) ::syscall(SYS_pkey_free, keys.front());
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kProtectionKey)) << "the lowest ones are free";
  give_key(0);
  ::syscall(SYS_pkey_free, highest);
  EXPECT_EQ(refusal(memory.range()), nullptr);
}

TEST_P(NotMoved, AreReservedHugePages) {
  constexpr std::size_t kHugePage = 2 * kMebi;
  void* memory = ::mmap(nullptr, kHugePage, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "the system has no huge pages";
  EXPECT_STREQ(refusal(range_of(memory, kHugePage)), to_text(Why::kHugePage));
  ::munmap(memory, kHugePage);
}

TEST_P(NotMoved, IsWhatAnotherUserfaultfdWatches) {
  const Memory memory(4 * page());
  const auto watcher =
      static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
  ASSERT_GE(watcher, 0);
  uffdio_api api{};
  api.api = UFFD_API;
  ASSERT_EQ(::ioctl(watcher, UFFDIO_API, &api), 0);
  uffdio_register request{};
  request.range = {.start = memory.range().begin, .len = page()};
  request.mode = UFFDIO_REGISTER_MODE_MISSING;
  ASSERT_EQ(::ioctl(watcher, UFFDIO_REGISTER, &request), 0);
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kUserfaultfd));
  ::close(watcher);
  EXPECT_EQ(refusal(memory.range()), nullptr);
}

/// Pages that moved before the refusal keep their contents.
TEST_P(NotMoved, LeavesEverythingAsItWas) {
  const Memory memory(2 * kMebi);
  memory.fill();
  ASSERT_EQ(::mprotect(memory.data() + kMebi, page(), PROT_READ), 0);
  const auto watcher =
      static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
  ASSERT_GE(watcher, 0);
  uffdio_api api{};
  api.api = UFFD_API;
  ASSERT_EQ(::ioctl(watcher, UFFDIO_API, &api), 0);
  uffdio_register request{};
  request.range = {.start = memory.range().end - page(), .len = page()};
  request.mode = UFFDIO_REGISTER_MODE_MISSING;
  ASSERT_EQ(::ioctl(watcher, UFFDIO_REGISTER, &request), 0);
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kUserfaultfd));
  EXPECT_LT(rehoming_.moved_octets(), memory.octets());
  EXPECT_TRUE(memory.is_filled());
  ::close(watcher);
}

VB_WITH_EVERY_TAKING(NotMoved);

TEST(Limits, OfFileSizesAreKept) {
  VB_SKIP_IF_NOTHING_MOVES();
  const int ended = test::in_a_child([] {
    const rlimit limit{.rlim_cur = 64 * kMebi, .rlim_max = 64 * kMebi};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    const Memory memory(4 * kMebi);
    const Memory large(65 * kMebi);
    memory.fill();
    Rehoming& rehoming = *new Rehoming;
    EXPECT_EQ(rehoming.move_in(large.range()).error(), Why::kFileSizeLimit);
    const auto placement = rehoming.move_in(memory.range());
    ASSERT_TRUE(placement.ok()) << to_text(placement.error());
    EXPECT_LE(placement->offset + placement->pages.octets(), 64 * kMebi);
    EXPECT_TRUE(memory.is_filled());
    EXPECT_EQ(rehoming.move_in(large.part(0, page())).ok() &&
                  rehoming.move_in(large.part(64 * kMebi, page())).ok(),
              false)
        << "both ends of a memory that is larger than the file";
    const rlimit less{.rlim_cur = 4096, .rlim_max = 64 * kMebi};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &less), 0);
    const Memory other(4 * page());
    EXPECT_EQ(rehoming.move_in(other.range()).error(), Why::kFileSizeLimit);
    rehoming.drop(*placement);
    EXPECT_TRUE(memory.is_filled());
  });
  EXPECT_EQ(ended, 0);
}

TEST(Limits, OfAddressSpaceLoseNothing) {
  VB_SKIP_IF_NOTHING_MOVES();
  if (test::kIsSanitized) GTEST_SKIP() << "sanitizers need terabytes of addresses";
  for (const std::size_t room : {65 * kMebi, 80 * kMebi, 300 * kMebi}) {
    const int ended = test::in_a_child([&] {
      const Memory memory(64 * kMebi);
      memory.fill();
      const rlimit limit{.rlim_cur = room, .rlim_max = room};
      ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
      alignas(Rehoming) static std::array<std::byte, sizeof(Rehoming)>
          place;  // on the stack, because the heap cannot grow
      auto* const rehoming = new (place.data()) Rehoming({.policy = Policy::kEdges});
      (void)rehoming->move_in(memory.range());
      EXPECT_TRUE(memory.is_filled());
    });
    EXPECT_EQ(ended, 0) << room;
  }
}

/// With any number of mappings left to the process, the move is refused or done, and nothing is
/// lost.
TEST(Limits, OfMappingsAreARefusal) {
  VB_SKIP_IF_NOTHING_MOVES();
  for (const Taking taking : {Taking::kBest, Taking::kMapping}) {
    const int ended = test::in_a_child([&] {
      const Memory first(page());
      Rehoming& rehoming = *new Rehoming({.policy = Policy::kEdges, .taking = taking});
      ASSERT_TRUE(rehoming.move_in(first.range()).ok());  // everything that a move needs exists now
      const Memory memory(24 * page());
      memory.fill();
      // Every second page becomes a mapping of its own, until no more are allowed.
      const Memory many(std::size_t{400'000} * page(), PROT_READ);
      std::size_t used = 0;
      while (used + 2 < 400'000 &&
             ::mprotect(many.data() + used * page(), page(), PROT_NONE) == 0) {
        used += 2;
      }
      if (used + 2 >= 400'000) return;  // vm.max_map_count is large here
      EXPECT_FALSE(rehoming.move_in(memory.part(4 * page(), 16 * page())).ok());
      bool is_moved = false;
      for (int room = 0; room < 32 && !is_moved; ++room) {
        is_moved = rehoming.move_in(memory.part(4 * page(), 16 * page())).ok();
        ASSERT_TRUE(memory.is_filled()) << room;
        used -= 2;
        ASSERT_EQ(::mprotect(many.data() + used * page(), page(), PROT_READ), 0);
      }
      EXPECT_TRUE(is_moved);
    });
    EXPECT_EQ(ended, 0);
  }
}

TEST(Descriptor, ThatTheProgramHasClosedIsNotUsedAnyMore) {
  VB_SKIP_IF_NOTHING_MOVES();
  const int ended = test::in_a_child([] {
    const Memory memory(4 * page());
    memory.fill();
    Rehoming& rehoming = *new Rehoming({.policy = Policy::kEdges});
    const auto placement = rehoming.move_in(memory.range());
    ASSERT_TRUE(placement.ok());
    const int file = rehoming.arena().descriptor();
    ASSERT_EQ(::dup2(::open("/dev/zero", O_RDWR), file), file);
    const Memory other(4 * page());
    other.fill();
    EXPECT_EQ(rehoming.move_in(other.range()).error(), Why::kRefused);
    rehoming.drop(*placement);
    EXPECT_TRUE(memory.is_filled());
    EXPECT_TRUE(other.is_filled());
    EXPECT_EQ(::fcntl(file, F_GETFD), 0);
  });
  EXPECT_EQ(ended, 0);
}

}  // namespace
}  // namespace verbatim::rehome
