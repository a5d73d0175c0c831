// SPDX-License-Identifier: Apache-2.0
#include "host/membarrier.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <new>
#include <span>
#include <thread>

#include "base/occupancy.h"
#include "host/test_process.h"

namespace verbatim::host {
namespace {

TEST(Membarrier, LeavesErrnoAlone) {
  errno = EXDEV;
  (void)Membarrier::global();
  (void)Membarrier::own();
  Membarrier::all_processes();
  if (Membarrier::own() == Fencing::kExpedited) Membarrier::own_threads();
  EXPECT_EQ(errno, EXDEV);
}

TEST(Membarrier, AForkedChildIsStillRegistered) {
  if (Membarrier::own() != Fencing::kExpedited) GTEST_SKIP() << "the system has no membarrier";
  EXPECT_EQ(test::in_a_child([] {
              EXPECT_EQ(::syscall(SYS_membarrier, 8 /* PRIVATE_EXPEDITED */, 0, 0), 0);
              EXPECT_EQ(Membarrier::own(), Fencing::kExpedited);
            }),
            0);
}

/// From now on the system has no membarrier for this process.
void forbid_membarrier() {
  std::array<sock_filter, 4> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    ::_exit(test::kSkipped);
  }
}

TEST(Membarrier, AProcessThatForbidsItselfTheCallIsServedAllTheSame) {
  const int ended = test::in_a_child([] {
    (void)Membarrier::global();
    forbid_membarrier();
    Membarrier::all_processes();
    if (Membarrier::own() == Fencing::kExpedited) Membarrier::own_threads();
  });
  if (ended == test::kSkipped) GTEST_SKIP() << "the system has no seccomp filters";
  EXPECT_EQ(ended, 0);
}

/// What a requester and an owner in two processes share.
struct Shared {
  static constexpr std::size_t kWords = 32;
  alignas(64) Occupancy occupancy;
  alignas(64) std::atomic<std::uint32_t> live = 0;
  std::atomic<std::uint32_t> done = 0;
  std::atomic<std::uint64_t> visits = 0;
  alignas(64) std::array<std::uint64_t, kWords> target{};
};

void visit_until_done(Shared& shared, Fencing fencing) {
  for (std::uint64_t i = 1; shared.done.load(std::memory_order_relaxed) == 0; ++i) {
    const ScopedVisit visit(shared.occupancy, fencing);
    if (shared.live.load(std::memory_order_relaxed) == 0) continue;
    for (auto& word : shared.target) {
      std::atomic_ref(word).store(i, std::memory_order_relaxed);
    }
    shared.visits.store(i, std::memory_order_relaxed);
  }
}

/// The requester, in another process, writes a whole array while it is allowed to, with plain
/// stores around it. The owner forbids it, waits, and then owns the array. If a store came late,
/// the owner would find it in the array that it has cleared, or would find half of a visit.
void take_away_again_and_again(Shared& shared, std::uint32_t rounds) {
  // Longer on a busy machine, where the requester gets no processor at first.
  const auto is_tested = [&] { return shared.visits.load(std::memory_order_relaxed) > 0; };
  for (std::uint32_t round = 0; round < rounds || !is_tested(); ++round) {
    shared.live.store(1, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < round % 64; ++i) compiler_barrier();
    if (round % 16 == 0) std::this_thread::yield();
    shared.live.store(0, std::memory_order_relaxed);
    ASSERT_TRUE(quiesce(std::span(&shared.occupancy, 1), Membarrier::all_processes, [](Occupancy&) {
      std::this_thread::yield();
      return true;
    }));
    const std::uint64_t last = shared.target[0];
    for (auto& word : shared.target) {
      ASSERT_EQ(std::atomic_ref(word).load(std::memory_order_relaxed), last)
          << "in round " << round;
      std::atomic_ref(word).store(0, std::memory_order_relaxed);
    }
    for (auto& word : shared.target) {
      ASSERT_EQ(std::atomic_ref(word).load(std::memory_order_relaxed), 0U) << "a late store";
    }
  }
}

void check_two_processes(Fencing fencing) {
  void* place =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(place, MAP_FAILED);
  auto* shared = new (place) Shared;
  const pid_t child = ::fork();
  if (child == 0) {
    visit_until_done(*shared, fencing);
    ::_exit(0);
  }
  ASSERT_GT(child, 0);
  take_away_again_and_again(*shared, 2'000);
  shared->done.store(1, std::memory_order_relaxed);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::munmap(place, sizeof(Shared));
}

TEST(OccupancyOfTwoProcesses, HoldsWithPlainStoresAndMembarrier) {
  if (Membarrier::global() != Fencing::kExpedited) GTEST_SKIP() << "the system has no membarrier";
  check_two_processes(Fencing::kExpedited);
}

TEST(OccupancyOfTwoProcesses, HoldsWithFences) { check_two_processes(Fencing::kFenced); }

}  // namespace
}  // namespace verbatim::host
