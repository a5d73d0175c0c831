// SPDX-License-Identifier: Apache-2.0
// Memory that moves.
#include "rehome/rehoming.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <atomic>
#include <thread>

#include "base/prng.h"
#include "rehome/tasks.h"
#include "rehome/test_moving.h"

namespace verbatim::rehome {
namespace {

using test::kMebi;
using test::Memory;
using test::page;

class Rehomed : public test::Moving {};

TEST_P(Rehomed, KeepsContentsAndAddress) {
  const Memory memory(5 * kMebi + 5 * page());
  memory.fill();
  const Placement placement = move_in(memory.range());
  EXPECT_EQ(placement.pages, memory.range());
  EXPECT_TRUE(memory.is_filled());
  EXPECT_EQ(test::arena_octets(rehoming_), memory.octets());
  memory.fill(1);
  EXPECT_TRUE(memory.is_filled(1));
  rehoming_.drop(placement);
  EXPECT_TRUE(memory.is_filled(1));
}

TEST_P(Rehomed, GivesNoPagesToWhatWasNeverTouched) {
  const Memory memory(4 * kMebi);
  memory.data()[2 * kMebi + 17] = std::byte{9};
  (void)move_in(memory.range());
  EXPECT_EQ(test::arena_octets(rehoming_), page());
  EXPECT_EQ(memory.data()[2 * kMebi + 17], std::byte{9});
  memory.data()[3 * kMebi] = std::byte{7};
  EXPECT_EQ(memory.data()[3 * kMebi + 1], std::byte{0});
}

TEST_P(Rehomed, MayBeReadOnlyInPart) {
  const Memory memory(kMebi + 9 * page());
  memory.fill();
  ASSERT_EQ(::mprotect(memory.data() + 9 * page(), 3 * page(), PROT_READ), 0);
  (void)move_in(memory.range());
  EXPECT_TRUE(memory.is_filled());
  EXPECT_EQ(test::mappings([&](const Mapping& mapping) {
              return mapping.range.overlaps(memory.part(9 * page(), 3 * page())) &&
                     mapping.writable;
            }),
            0U);
  ASSERT_EQ(::mprotect(memory.data() + 9 * page(), 3 * page(), PROT_READ | PROT_WRITE), 0);
  memory.fill(3);
  EXPECT_TRUE(memory.is_filled(3));
}

TEST_P(Rehomed, StaysWhenTheLastRegionGoesAndIsThereForTheNext) {
  const Memory memory(16 * page());
  memory.fill();
  const Placement low = move_in(memory.part(0, 10 * page()));
  const Placement high = move_in(memory.part(6 * page(), 10 * page()));
  EXPECT_EQ(high.offset, low.offset + 6 * page());
  EXPECT_EQ(rehoming_.moved_octets(), memory.octets());
  rehoming_.drop(high);
  rehoming_.drop(low);
  EXPECT_EQ(rehoming_.moved_octets(), memory.octets());
  EXPECT_EQ(move_in(memory.range()).offset, low.offset);
}

TEST_P(Rehomed, IsFreedWhenTheProgramUnmapsIt) {
  {
    const Memory memory(16 * page());
    memory.fill();
    rehoming_.drop(move_in(memory.range()));
    ASSERT_EQ(::munmap(memory.data(), 4 * page()), 0);
    EXPECT_EQ(rehoming_.moved_octets(), 12 * page());
    EXPECT_EQ(test::arena_octets(rehoming_), 12 * page());
  }
  EXPECT_EQ(rehoming_.moved_octets(), 0U);
  EXPECT_EQ(test::arena_octets(rehoming_), 0U);
}

TEST_P(Rehomed, LeavesOtherMemoryAloneThatComesToItsAddress) {
  const Memory memory(16 * page());
  memory.fill();
  const Placement old = move_in(memory.range());
  void* const at = memory.data();
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  ASSERT_EQ(::mmap(at, memory.octets(), PROT_READ | PROT_WRITE, kFlags, -1, 0), at);
  memory.fill(5);
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kReplaced)) << "a region still names it";
  rehoming_.drop(old);
  EXPECT_TRUE(memory.is_filled(5));
  const Placement next = move_in(memory.range());
  EXPECT_TRUE(memory.is_filled(5));
  rehoming_.drop(next);
}

TEST_P(Rehomed, ReadsAsZeroesWhereTheProgramEmptiesIt) {
  const Memory memory(8 * page());
  for (int round = 0; round < test::rounds(200); ++round) {
    memory.fill();
    const Placement placement = move_in(memory.range());
    ASSERT_EQ(::madvise(memory.data() + 2 * page(), 3 * page(), MADV_DONTNEED), 0);
    ASSERT_EQ(memory.data()[2 * page()], std::byte{0});
    ASSERT_EQ(memory.data()[5 * page() - 1], std::byte{0});
    ASSERT_NE(memory.data()[1], std::byte{0});
    rehoming_.drop(placement);
    if (round % 2 == 1) continue;
    ASSERT_EQ(::madvise(memory.data(), memory.octets(), MADV_DONTNEED), 0);
    ASSERT_TRUE(memory.is_zero()) << "also when no region is there";
  }
}

TEST_P(Rehomed, GoesWhereTheProgramMovesIt) {
  const Memory memory(8 * page());
  const Memory elsewhere(8 * page());
  memory.fill();
  const Placement placement = move_in(memory.range());
  ASSERT_EQ(::mremap(memory.data(), 7 * page(), 7 * page(), MREMAP_MAYMOVE | MREMAP_FIXED,
                     elsewhere.data()),
            elsewhere.data());
  rehoming_.drop(placement);
  EXPECT_EQ(std::memcmp(elsewhere.data(), "\x01\x08\x0f", 3), 0);
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  ASSERT_EQ(::mmap(memory.data(), 7 * page(), PROT_READ | PROT_WRITE, kFlags, -1, 0),
            memory.data());
  EXPECT_STREQ(refusal(memory.part(0, 7 * page())), to_text(Why::kReplaced));
  EXPECT_EQ(std::memcmp(elsewhere.data(), "\x01\x08\x0f", 3), 0);
}

TEST_P(Rehomed, CannotBeEnlargedIntoTheMemoryOfOthers) {
  const Memory memory(8 * page());
  memory.fill();
  (void)move_in(memory.part(0, 4 * page()));
  EXPECT_EQ(::mremap(memory.data(), 4 * page(), 16 * page(), MREMAP_MAYMOVE), MAP_FAILED);
  EXPECT_TRUE(memory.is_filled());
}

TEST_P(Rehomed, IsSharedWithAProcessThatMapsTheArena) {
  const Memory memory(4 * page());
  memory.fill();
  const Placement placement = move_in(memory.range());
  void* view = ::mmap(nullptr, 4 * page(), PROT_READ | PROT_WRITE, MAP_SHARED,
                      rehoming_.arena().descriptor(), static_cast<off_t>(placement.offset));
  ASSERT_NE(view, MAP_FAILED);
  auto* const octets = static_cast<std::byte*>(view);
  EXPECT_EQ(std::memcmp(octets, memory.data(), memory.octets()), 0);
  octets[page()] = std::byte{0xee};
  EXPECT_EQ(memory.data()[page()], std::byte{0xee});
  ::munmap(view, 4 * page());
}

TEST_P(Rehomed, IsOutOfReachOfLateStoresOnceDetached) {
  const Memory memory(4 * page());
  memory.fill();
  const Placement placement = move_in(memory.range());
  void* view = ::mmap(nullptr, 4 * page(), PROT_READ | PROT_WRITE, MAP_SHARED,
                      rehoming_.arena().descriptor(), static_cast<off_t>(placement.offset));
  ASSERT_NE(view, MAP_FAILED);
  rehoming_.detach(placement, [](Range) { ADD_FAILURE() << "no other region is there"; });
  std::memset(view, 0xee, 4 * page());
  EXPECT_TRUE(memory.is_filled());
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kForked));
  ASSERT_EQ(::madvise(memory.data(), memory.octets(), MADV_DONTNEED), 0);
  EXPECT_TRUE(memory.is_zero());
  ::munmap(view, 4 * page());
}

/// What a stopped peer stores when it continues appears in no memory that comes to these addresses
/// later, whenever the program has unmapped them.
TEST_P(Rehomed, DoesNotReturnToWhereALateStoreMayAppear) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  const Memory memory(4 * page());
  memory.fill();
  const Placement placement = move_in(memory.range());
  void* view = ::mmap(nullptr, 4 * page(), PROT_READ | PROT_WRITE, MAP_SHARED,
                      rehoming_.arena().descriptor(), static_cast<off_t>(placement.offset));
  ASSERT_NE(view, MAP_FAILED);
  const auto replace = [&] {
    ASSERT_EQ(::munmap(memory.data(), memory.octets()), 0);
    ASSERT_EQ(::mmap(memory.data(), memory.octets(), PROT_READ | PROT_WRITE, kFlags, -1, 0),
              memory.data());
  };
  replace();
  rehoming_.detach(placement, [](Range) { ADD_FAILURE() << "no other region is there"; });
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kReplaced));
  ASSERT_TRUE(rehoming_.watch(memory.range()));
  replace();
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kReplaced));
  std::memset(view, 0xee, 4 * page());
  EXPECT_TRUE(memory.is_zero());
  ::munmap(view, 4 * page());
}

/// Two threads detach the placements of one list. The thread that finds the list empty waits until
/// the other thread has detached the placement that it has taken.
TEST_P(Rehomed, IsDetachedWhenAnotherThreadFindsItsListEmpty) {
  const Memory memory(4 * page());
  memory.fill();
  const Placement placement = move_in(memory.range());
  const auto is_shared = [&] {
    return test::mappings([&](const Mapping& mapping) {
             return mapping.shared && mapping.range.overlaps(memory.range());
           }) != 0;
  };
  std::atomic<pid_t> id{0};
  std::atomic<bool> has_looked{false};
  std::atomic<bool> was_shared{true};
  std::thread other;
  const auto withdraw = [](Range) { ADD_FAILURE() << "no other region is there"; };
  const auto waits = [&] {
    TaskFile text{};
    const auto line = read_task_file(std::to_string(id).c_str(), "/syscall", text);
    return line.starts_with(std::to_string(SYS_futex) + " ");
  };
  bool is_taken = false;
  const auto take = [&]() -> std::optional<Placement> {
    if (is_taken) return std::nullopt;
    is_taken = true;
    other = std::thread([&] {
      id = ::gettid();
      const auto find_nothing = [&]() -> std::optional<Placement> {
        has_looked = true;
        return std::nullopt;
      };
      rehoming_.detach_all(find_nothing, withdraw);
      was_shared = is_shared();
    });
    while (!has_looked && (id == 0 || !waits())) std::this_thread::yield();
    EXPECT_FALSE(has_looked) << "the list is used without the lock";
    return placement;
  };
  rehoming_.detach_all(take, withdraw);
  other.join();
  EXPECT_TRUE(has_looked);
  EXPECT_FALSE(was_shared);
  EXPECT_TRUE(memory.is_filled());
}

/// The program has closed descriptors of the library, and a file of its own has the number of the
/// arena's.
TEST_P(Rehomed, IsDetachedThoughAnotherFileHasTheNumberOfTheArena) {
  EXPECT_EQ(test::in_a_child([] {
              auto& rehoming = *new Rehoming({.policy = Policy::kEdges, .taking = GetParam()});
              const Memory memory(4 * page());
              memory.fill();
              const Placement placement = move_in(rehoming, memory.range());
              void* const view =
                  ::mmap(nullptr, 4 * page(), PROT_READ | PROT_WRITE, MAP_SHARED,
                         rehoming.arena().descriptor(), static_cast<off_t>(placement.offset));
              ASSERT_NE(view, MAP_FAILED);
              const auto file = static_cast<int>(::syscall(SYS_memfd_create, "file", 0U));
              const auto octets = static_cast<off_t>(placement.offset + memory.octets());
              ASSERT_EQ(::ftruncate(file, octets), 0);
              const int number = rehoming.arena().descriptor();
              ASSERT_EQ(::dup2(file, number), number);
              rehoming.detach(placement, [](Range) { ADD_FAILURE() << "no other region"; });
              std::memset(view, 0xee, 4 * page());
              EXPECT_TRUE(memory.is_filled());
              ASSERT_EQ(::madvise(memory.data(), memory.octets(), MADV_DONTNEED), 0);
              EXPECT_TRUE(memory.is_zero());
            }),
            0);
}

/// The same for several ranges: the monitor is told each time.
TEST_P(Rehomed, IsDetachedPieceByPieceWithoutDescriptors) {
  EXPECT_EQ(test::in_a_child([] {
              auto& rehoming = *new Rehoming({.policy = Policy::kEdges, .taking = GetParam()});
              const Memory memory(8 * page());
              memory.fill();
              std::vector<Placement> placements;
              for (std::size_t i = 0; i < 4; ++i) {
                placements.push_back(move_in(rehoming, memory.part(2 * i * page(), 2 * page())));
              }
              ASSERT_EQ(::syscall(SYS_close_range, 3U, ~0U, 0U), 0);
              for (const Placement& placement : placements) {
                rehoming.detach(placement, [](Range) { ADD_FAILURE() << "no other region"; });
              }
              EXPECT_EQ(test::mappings([&](const Mapping& mapping) {
                          return mapping.shared && mapping.range.overlaps(memory.range());
                        }),
                        0U);
              EXPECT_TRUE(memory.is_filled());
            }),
            0);
}

/// Another region contains some of the pages: `withdraw` is called before the pages become private.
TEST_P(Rehomed, IsWithdrawnFromOtherRegionsBeforeItIsDetached) {
  static Range told;
  static bool was_shared = false;
  static const auto kIsShared = [](Range part) {
    return test::mappings([&](const Mapping& mapping) {
             return mapping.shared && mapping.range.overlaps(part);
           }) != 0;
  };
  const Memory memory(4 * page());
  memory.fill();
  const Placement first = move_in(memory.part(0, 2 * page()));
  const Placement second = move_in(memory.part(page(), 3 * page()));
  told = {};
  rehoming_.detach(first, [](Range pages) {
    told = pages;
    was_shared = kIsShared(pages);
  });
  EXPECT_EQ(told, first.pages);
  EXPECT_TRUE(was_shared);
  EXPECT_FALSE(kIsShared(first.pages));
  EXPECT_TRUE(kIsShared(memory.part(2 * page(), 2 * page()))) << "the second region's alone";
  EXPECT_NE(rehoming_.detachments(), second.detachments) << "a registration under way sees that";
  EXPECT_TRUE(memory.is_filled());
  rehoming_.drop(second);
}

/// A page that the kernel has pinned does not move, and neither does its region.
TEST_P(Rehomed, IsNotWhatIoUringHasPinned) {
  io_uring_params parameters{};
  const auto ring = static_cast<int>(::syscall(SYS_io_uring_setup, 2, &parameters));
  if (ring < 0) GTEST_SKIP() << "the system allows no io_uring";
  const Memory memory(8 * page());
  memory.fill();
  iovec buffer{.iov_base = memory.data() + 4 * page(), .iov_len = page()};
  ASSERT_EQ(::syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1), 0);
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kPinned));
  EXPECT_TRUE(memory.is_filled());
  ::close(ring);
}

TEST_P(Rehomed, IsNothingWhileTheProgramHasAnotherThread) {
  const Memory memory(4 * page());
  memory.fill();
  std::atomic<bool> goes_on{true};
  std::thread other([&] {
    while (goes_on) std::this_thread::yield();
  });
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kThreads));
  goes_on = false;
  other.join();
  while (!is_alone()) std::this_thread::yield();
  const Placement placement = move_in(memory.range());
  std::thread third([&] {
    const Placement again = move_in(memory.range());  // it is there already
    EXPECT_EQ(again.offset, placement.offset);
  });
  third.join();
}

TEST_P(Rehomed, IsPrivateMemoryThatAForkHasLeftShared) {
  const Memory memory(8 * page());
  memory.fill();
  EXPECT_EQ(test::in_a_child([&] { EXPECT_TRUE(memory.is_filled()); }), 0);
  (void)move_in(memory.range());
  EXPECT_TRUE(memory.is_filled());
}

VB_WITH_EVERY_TAKING(Rehomed);

TEST(Placement, LeavesPartialPagesOutUnlessToldOtherwise) {
  VB_SKIP_IF_NOTHING_MOVES();
  const Memory memory(8 * page());
  memory.fill();
  const Range inside = memory.part(100, 6 * page());
  const auto whole = (new Rehoming)->move_in(inside);
  ASSERT_TRUE(whole.ok()) << to_text(whole.error());
  EXPECT_EQ(whole->pages, memory.part(page(), 5 * page()));
  const Memory other(8 * page());
  const auto edges = (new Rehoming({.policy = Policy::kEdges}))->move_in(other.part(100, page()));
  ASSERT_TRUE(edges.ok()) << to_text(edges.error());
  EXPECT_EQ(edges->pages, other.part(0, 2 * page()));
}

TEST(Policy, NeverMovesNothing) {
  const Memory memory(4 * page());
  Rehoming rehoming({.policy = Policy::kNever});
  EXPECT_EQ(rehoming.move_in(memory.range()).error(), Why::kPolicy);
}

TEST(Policy, EveryReasonHasWords) {
  for (int i = 0; i <= static_cast<int>(Why::kRefused); ++i) {
    EXPECT_STRNE(to_text(Why(static_cast<std::uint8_t>(i))), "?");
  }
}

TEST(OrdinaryUser, MovesMemory) {
  VB_SKIP_IF_NOTHING_MOVES();
  EXPECT_EQ(test::as_nobody([] {
              const Memory memory(kMebi);
              memory.fill();
              const auto placement = (new Rehoming)->move_in(memory.range());
              ASSERT_TRUE(placement.ok()) << to_text(placement.error());
              EXPECT_TRUE(memory.is_filled());
              ASSERT_EQ(::madvise(memory.data(), kMebi, MADV_DONTNEED), 0);
              EXPECT_TRUE(memory.is_zero());
            }),
            0);
}

struct Heard {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  Watch::Observer observer{.handle_unmap =
                               [](void* context, Range range) noexcept {
                                 auto* heard = static_cast<Heard*>(context);
                                 heard->begin = range.begin;
                                 heard->end = range.end;
                                 return false;
                               },
                           .context = this};
};

/// The observer has been called when the system call returns.
TEST(Watched, MemoryIsHeardOfBeforeTheCallReturns) {
  VB_SKIP_IF_NOTHING_MOVES();
  Rehoming& rehoming = *new Rehoming;
  Heard heard;
  ASSERT_TRUE(rehoming.add_observer(heard.observer));
  for (int round = 0; round < test::rounds(200); ++round) {
    const Memory memory(8 * page());
    memory.fill();
    if (!rehoming.watch(memory.part(100, 4 * page()))) GTEST_SKIP() << "not watched here";
    heard.begin = heard.end = 0;
    ASSERT_EQ(::munmap(memory.data() + page(), page()), 0);
    ASSERT_EQ(heard.begin.load(), memory.range().begin + page());
    ASSERT_EQ(heard.end.load(), memory.range().begin + 2 * page());
    heard.begin = 0;
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    ASSERT_NE(::mmap(memory.data() + 2 * page(), page(), PROT_READ, kFlags, -1, 0), MAP_FAILED);
    ASSERT_EQ(heard.begin.load(), memory.range().begin + 2 * page());
    // The monitor calls the observer again when it reads the event, perhaps after mmap has
    // returned.
    ASSERT_EQ(::munmap(memory.data() + 6 * page(), page()), 0);
    ASSERT_EQ(heard.begin.load(), memory.range().begin + 2 * page()) << "page 6 was not watched";
  }
  rehoming.remove_observer(heard.observer);
}

/// So many other ranges were unmapped before that this departure is not recorded.
TEST(Watched, MemoryIsKnownToBeUnmappedWhenItsDepartureIsLost) {
  VB_SKIP_IF_NOTHING_MOVES();
  constexpr std::size_t kDepartures = 1024;  // as many as are kept
  Rehoming& rehoming = *new Rehoming;
  const Memory memory(page());
  const Memory others(2 * kDepartures * page());
  if (!rehoming.watch(memory.range()) || !rehoming.watch(others.range())) {
    GTEST_SKIP() << "not watched here";
  }
  for (std::size_t i = 0; i < kDepartures; ++i) {
    ASSERT_EQ(::munmap(others.data() + 2 * i * page(), page()), 0);
  }
  const Watch::Moment moment = rehoming.now();
  ASSERT_EQ(::munmap(memory.data(), page()), 0);
  (void)rehoming.moved_octets();  // takes all departures
  EXPECT_TRUE(rehoming.has_unmapped_since(moment, memory.range()));
}

/// Memory that was registered before the program had peers, and then could not move.
TEST(Watched, MemoryIsStillHeardOfAfterAMoveHasFailed) {
  VB_SKIP_IF_NOTHING_MOVES();
  io_uring_params parameters{};
  const auto ring = static_cast<int>(::syscall(SYS_io_uring_setup, 2, &parameters));
  if (ring < 0) GTEST_SKIP() << "the system allows no io_uring";
  Rehoming& rehoming = *new Rehoming;
  Heard heard;
  ASSERT_TRUE(rehoming.add_observer(heard.observer));
  const Memory memory(8 * page());
  memory.fill();
  iovec buffer{.iov_base = memory.data() + 4 * page(), .iov_len = page()};
  ASSERT_EQ(::syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1), 0);
  if (!rehoming.watch(memory.range())) GTEST_SKIP() << "not watched here";
  const auto moved = rehoming.move_in(memory.range());
  ASSERT_FALSE(moved);
  EXPECT_STREQ(to_text(moved.error()), to_text(Why::kPinned));
  for (const std::size_t number : {0U, 4U, 7U}) {
    heard.begin = 0;
    ASSERT_EQ(::munmap(memory.data() + number * page(), page()), 0);
    EXPECT_EQ(heard.begin.load(), memory.part(number * page(), page()).begin);
  }
  rehoming.remove_observer(heard.observer);
  ::close(ring);
}

}  // namespace
}  // namespace verbatim::rehome
