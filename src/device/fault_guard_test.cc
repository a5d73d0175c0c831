// SPDX-License-Identifier: Apache-2.0
#include "device/fault_guard.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace verbatim::device {
namespace {

/// A page that is not there.
class FaultGuard : public testing::Test {
 protected:
  FaultGuard()
      : octets_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
        page_(static_cast<volatile char*>(
            ::mmap(nullptr, octets_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    install_fault_guard();
  }
  ~FaultGuard() override { ::munmap(const_cast<char*>(page_), octets_); }

  const std::size_t octets_;
  volatile char* const page_;
};
using FaultGuardDeathTest = FaultGuard;

TEST_F(FaultGuard, AFaultEndsTheWorkAndNotTheProcess) {
  volatile bool was_there = false;
  void* fault_at = nullptr;
  EXPECT_FALSE(guarded(
      [&] {
        page_[7] = 1;
        was_there = true;
      },
      &fault_at));
  EXPECT_FALSE(was_there);
  EXPECT_EQ(fault_at, const_cast<char*>(page_) + 7);
}

TEST_F(FaultGuard, WorkWithoutAFaultIsDone) {
  void* fault_at = nullptr;
  bool is_done = false;
  EXPECT_TRUE(guarded([&] { is_done = true; }, &fault_at));
  EXPECT_TRUE(is_done);
  EXPECT_EQ(fault_at, nullptr);
}

TEST_F(FaultGuard, AFaultEndsTheInnermostWorkAndTheNextOneTheOuter) {
  volatile bool inner = true;
  volatile bool goes_on = false;
  EXPECT_FALSE(guarded([&] {
    inner = guarded([&] { page_[0] = 1; });
    goes_on = true;
    page_[0] = 1;
  }));
  EXPECT_FALSE(inner);
  EXPECT_TRUE(goes_on);
}

TEST_F(FaultGuardDeathTest, AFaultBehindTheWorkEndsTheProcess) {
  EXPECT_DEATH(
      {
        (void)guarded([&] { page_[0] = 1; });
        page_[0] = 1;
      },
      "");
}

TEST_F(FaultGuard, AThreadThatBlocksAllSignalsIsGuarded) {
  std::thread([&] {
    sigset_t all;
    sigfillset(&all);
    ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &all, nullptr), 0);
    let_faults_through_for_posting();
    EXPECT_FALSE(guarded([&] { page_[0] = 1; }));
    sigset_t now;
    ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &now), 0);
    EXPECT_EQ(sigismember(&now, SIGUSR1), 1) << "the other signals stay blocked";
  }).join();
}

}  // namespace
}  // namespace verbatim::device
