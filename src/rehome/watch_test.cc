// SPDX-License-Identifier: Apache-2.0
// Several threads change mappings at the same moment, while other threads compute.
#include "rehome/watch.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "base/pointer.h"
#include "rehome/test_moving.h"

namespace verbatim::rehome {
namespace {

using test::Memory;
using test::page;

constexpr std::size_t kThreads = 4;
constexpr std::size_t kPagesOfThread = 4;

/// Threads that keep the processors busy, until the end of the scope.
class Crowd {
 public:
  Crowd() {
    for (int i = 0; i < 2; ++i) {
      threads_.emplace_back([this] {
        while (!is_over_.load()) {
        }
      });
    }
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  ~Crowd() {
    is_over_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> is_over_{false};
  std::vector<std::thread> threads_;
};

template <typename Body>
void run_threads(Body&& body) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

/// Which pages of a memory an observer was told of.
struct ClosedPages {
  explicit ClosedPages(Range range) : whole(range) {}

  Range whole;
  std::array<std::atomic<bool>, kThreads * kPagesOfThread> is_closed{};
  Watch::Observer observer{.handle_unmap =
                               [](void* context, Range range) noexcept {
                                 auto& self = *static_cast<ClosedPages*>(context);
                                 const Range part = common(self.whole, range);
                                 for (std::uintptr_t at = part.begin; at < part.end; at += page()) {
                                   self.is_closed[(at - self.whole.begin) / page()].store(true);
                                 }
                                 return false;
                               },
                           .context = this};
};

class SeveralThreads : public ::testing::Test {
 protected:
  void SetUp() override { VB_SKIP_IF_NOTHING_MOVES(); }

  std::byte* page_of(std::size_t thread, int round) const {
    const std::size_t index =
        thread * kPagesOfThread + static_cast<std::size_t>(round) % kPagesOfThread;
    return memory_.data() + index * page();
  }

  Memory memory_{kThreads * kPagesOfThread * page()};
  // Never destroyed: its monitor exists as long as the process.
  Rehoming& rehoming_ = *new Rehoming;
};

TEST_F(SeveralThreads, FindZeroesWhereTheyHaveEmptiedPages) {
  const auto placement = rehoming_.move_in(memory_.range());
  ASSERT_TRUE(placement.ok()) << to_text(placement.error());
  std::atomic<int> stale{0};
  {
    const Crowd crowd;
    run_threads([&](std::size_t thread) {
      for (int round = 0; round < test::rounds(120); ++round) {
        auto* const octet = reinterpret_cast<volatile char*>(page_of(thread, round));
        *octet = 1;
        if (::madvise(page_of(thread, round), page(), MADV_DONTNEED) != 0 || *octet != 0) ++stale;
        *octet = 2;
        ::sched_yield();
        if (*octet != 2) ++stale;
      }
    });
  }
  EXPECT_EQ(stale.load(), 0);
  EXPECT_EQ(rehoming_.late_events(), 0U);
  rehoming_.drop(*placement);
}

TEST_F(SeveralThreads, AreHeardOfBeforeTheirCallsReturn) {
  ClosedPages closed(memory_.range());
  ASSERT_TRUE(rehoming_.add_observer(closed.observer));
  if (!rehoming_.watch(memory_.range())) GTEST_SKIP() << "not watched here";
  std::atomic<int> unheard{0};
  std::atomic<int> closed_anew{0};
  {
    const Crowd crowd;
    run_threads([&](std::size_t thread) {
      for (int round = 0; round < test::rounds(120); ++round) {
        std::byte* const at = page_of(thread, round);
        std::atomic<bool>& is_closed =
            closed.is_closed[static_cast<std::size_t>(at - memory_.data()) / page()];
        constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        if (::mmap(at, page(), PROT_READ | PROT_WRITE, kFlags, -1, 0) != at) ++unheard;
        if (!is_closed.load()) ++unheard;
        const auto begin = numeric_address(at);
        const Range range{.begin = begin, .end = begin + page()};
        const Watch::Moment before = rehoming_.now();
        if (!rehoming_.watch(range)) ++unheard;
        if (rehoming_.has_unmapped_since(before, range)) ++closed_anew;
        is_closed.store(false);
        ::sched_yield();
        if (is_closed.load()) ++closed_anew;
      }
    });
  }
  EXPECT_EQ(unheard.load(), 0);
  EXPECT_EQ(closed_anew.load(), 0);
  EXPECT_EQ(rehoming_.late_events(), 0U);
  rehoming_.remove_observer(closed.observer);
}

TEST_F(SeveralThreads, CanTellWhetherARangeWasUnmappedSince) {
  if (!rehoming_.watch(memory_.range())) GTEST_SKIP() << "not watched here";
  const Range first = memory_.part(0, page());
  const Range other = memory_.part(4 * page(), page());
  const Watch::Moment before = rehoming_.now();
  EXPECT_FALSE(rehoming_.has_unmapped_since(before, first));
  std::thread([&] { EXPECT_EQ(::munmap(memory_.data(), 2 * page()), 0); }).join();
  EXPECT_TRUE(rehoming_.has_unmapped_since(before, first));
  EXPECT_FALSE(rehoming_.has_unmapped_since(before, other));
  EXPECT_FALSE(rehoming_.has_unmapped_since(rehoming_.now(), first));
}

/// One thread unmaps, and another gets the addresses before the call of the first one returns.
TEST_F(SeveralThreads, MayRegisterWhatAnotherHasJustUnmapped) {
  ClosedPages closed(memory_.range());
  ASSERT_TRUE(rehoming_.add_observer(closed.observer));
  if (!rehoming_.watch(memory_.range())) GTEST_SKIP() << "not watched here";
  std::byte* const at = memory_.data() + page();
  std::atomic<bool>& is_closed = closed.is_closed[1];
  for (int round = 0; round < test::rounds(300); ++round) {
    std::thread unmapping([&] { EXPECT_EQ(::munmap(at, page()), 0); });
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    while (::mmap(at, page(), PROT_READ | PROT_WRITE, kFlags, -1, 0) != at) {
    }
    const auto begin = numeric_address(at);
    const Range range{.begin = begin, .end = begin + page()};
    const Watch::Moment before = rehoming_.now();
    const bool was_closed = is_closed.exchange(false);
    const bool is_watched = rehoming_.watch(range);
    unmapping.join();
    ASSERT_FALSE(rehoming_.has_unmapped_since(before, range)) << "that was the old memory";
    ASSERT_TRUE(is_watched);
    ASSERT_TRUE(was_closed) << "the old memory's keys must not work any longer";
    (void)rehoming_.now();
    ASSERT_FALSE(is_closed.load()) << "the new memory's keys must work";
  }
  rehoming_.remove_observer(closed.observer);
}

// ---- Programs whose calls the monitor does not find, or whose memory is locked ----

/// Of four pages the second is unmapped.
void expect_that_unmapping_is_reported(Rehoming& rehoming = *new Rehoming) {
  const Memory memory(kThreads * page());
  ClosedPages closed(memory.range());
  (void)rehoming.now();  // waits until earlier unmappings of these addresses are handled
  ASSERT_TRUE(rehoming.add_observer(closed.observer));
  ASSERT_TRUE(rehoming.watch(memory.range()));
  ASSERT_EQ(::munmap(memory.data() + page(), page()), 0);
  (void)rehoming.now();  // waits until the event is handled
  EXPECT_TRUE(closed.is_closed[1]);
  EXPECT_FALSE(closed.is_closed[0]);
  EXPECT_FALSE(closed.is_closed[2]);
  rehoming.remove_observer(
      closed.observer);  // the rest of the memory is unmapped after it has gone
}

/// Such as a program with capabilities of its file, or one that keeps secrets.
TEST(Unmapping, IsReportedInAProcessThatOthersMayNotTrace) {
  if (!test::has_memory_events()) GTEST_SKIP() << "the system has no userfaultfd with events";
  EXPECT_EQ(test::as_nobody([] {
              ASSERT_EQ(::prctl(PR_SET_DUMPABLE, 0), 0);
              expect_that_unmapping_is_reported();
              const Memory memory(page());
              EXPECT_EQ((new Rehoming)->move_in(memory.range()).error(), Why::kNoGuard)
                  << "MADV_DONTNEED would not give zeroes in time";
            }),
            0);
}

/// A server may register its first memory when all its descriptors are in use.
TEST(Unmapping, IsReportedInAProgramWithoutDescriptors) {
  if (!test::has_memory_events()) GTEST_SKIP() << "the system has no userfaultfd with events";
  EXPECT_EQ(test::in_a_child([] {
              auto& rehoming = *new Rehoming;
              const rlimit limit{.rlim_cur = 64, .rlim_max = 64};
              ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
              rehoming.open_arena();
              while (::dup(1) >= 0) {
              }
              expect_that_unmapping_is_reported(rehoming);
            }),
            0);
}

/// A daemon closes all descriptors, and opens the device anew.
TEST(Unmapping, IsReportedInAProgramThatHasClosedTheDescriptors) {
  if (!test::has_memory_events()) GTEST_SKIP() << "the system has no userfaultfd with events";
  EXPECT_EQ(test::in_a_child([] {
              auto& rehoming = *new Rehoming;
              const Memory memory(page());
              ASSERT_TRUE(rehoming.watch(memory.range()));
              ASSERT_EQ(::syscall(SYS_close_range, 3U, ~0U, 0U), 0);
              expect_that_unmapping_is_reported(rehoming);
              expect_that_unmapping_is_reported(rehoming);
            }),
            0);
}

TEST(Unmapping, IsReportedInAProgramThatLocksItsMemory) {
  if (!test::has_memory_events()) GTEST_SKIP() << "the system has no userfaultfd with events";
  constexpr int kTooLittle = 77;
  const int ended = test::in_a_child([] {
    constexpr std::size_t kStacks = std::size_t{32} << 20;
    if (::mlockall(MCL_FUTURE) != 0) ::_exit(kTooLittle);
    void* const room = ::mmap(nullptr, kStacks, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) ::_exit(kTooLittle);
    ::munmap(room, kStacks);
    expect_that_unmapping_is_reported();
  });
  if (ended == kTooLittle) GTEST_SKIP() << "the limit of locked memory is too low";
  EXPECT_EQ(ended, 0);
}

}  // namespace
}  // namespace verbatim::rehome
