// SPDX-License-Identifier: Apache-2.0
#include "rehome/thread_clocks.h"

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

namespace verbatim::rehome {
namespace {

void nap() {
  const timespec time{.tv_sec = 0, .tv_nsec = 1'000'000};
  ::nanosleep(&time, nullptr);
}

TEST(ThreadTimes, AThreadThatWasInUserModeHasGoneOn) {
  const ThreadTimes before{.user = 40, .total = 100};
  EXPECT_FALSE(has_gone_on(before, before, 4));
  EXPECT_TRUE(has_gone_on(before, {.user = 44, .total = 104}, 4));
}

TEST(ThreadTimes, AThreadThatWasInTheKernelForAMomentMayBeInTheSameCall) {
  const ThreadTimes before{.user = 40, .total = 100};
  EXPECT_FALSE(has_gone_on(before, {.user = 40, .total = 108}, 4));
  EXPECT_TRUE(has_gone_on(before, {.user = 40, .total = 112}, 4));
}

TEST(ThreadClocks, AThreadThatComputesGoesOn) {
  std::atomic<bool> is_over{false};
  std::thread computing([&] {
    while (!is_over.load()) {
    }
  });
  ThreadClocks clocks;
  clocks.note();
  while (!clocks.have_all_gone_on()) nap();
  clocks.note();
  while (!clocks.have_all_gone_on()) nap();
  is_over.store(true);
  computing.join();
}

TEST(ThreadClocks, AThreadThatHasJustBeenNotedHasNotGoneOn) {
  // More threads than processors: in some rounds at least one of them does not run while the clocks
  // are read.
  std::atomic<bool> is_over{false};
  std::vector<std::thread> computing;
  for (unsigned i = 0; i < 4 * std::thread::hardware_concurrency(); ++i) {
    computing.emplace_back([&] {
      while (!is_over.load()) {
      }
    });
  }
  ThreadClocks clocks;
  bool was_noticed = false;
  for (int round = 0; round < 1000 && !was_noticed; ++round) {
    clocks.note();
    was_noticed = !clocks.have_all_gone_on();
  }
  EXPECT_TRUE(was_noticed);
  is_over.store(true);
  for (std::thread& thread : computing) thread.join();
}

TEST(ThreadClocks, AThreadThatSleepsOrHasEndedIsNotWaitedFor) {
  std::atomic<bool> may_end{false};
  std::thread sleeping([&] { may_end.wait(false); });
  ThreadClocks clocks;
  clocks.note();
  while (!clocks.have_all_gone_on()) nap();
  clocks.note();
  may_end.store(true);
  may_end.notify_all();
  sleeping.join();
  EXPECT_TRUE(clocks.have_all_gone_on());
}

}  // namespace
}  // namespace verbatim::rehome
