// SPDX-License-Identifier: Apache-2.0
#include "host/crowd_gauge.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace verbatim::host {
namespace {

using namespace std::chrono_literals;

Instant now() { return Instant::at(std::chrono::steady_clock::now().time_since_epoch()); }

/// From now on this thread, and threads that it starts, run on one processor.
void stay_here() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
}

TEST(CrowdGauge, FindsACrowd) {
  std::thread([] {
    stay_here();
    std::atomic<bool> is_over{false};
    std::vector<std::thread> others;
    for (int i = 0; i < 7; ++i) {
      others.emplace_back([&] {
        while (!is_over) {
        }
      });
    }
    CrowdGauge gauge;
    bool is_crowded = false;
    const auto end = now() + 20s;
    while (!is_crowded && now() < end) is_crowded = gauge.is_crowded(now());
    is_over = true;
    for (std::thread& other : others) other.join();
    EXPECT_TRUE(is_crowded);
  }).join();
}

/// The time without a processor is the thread's own choice.
TEST(CrowdGauge, FindsNoneAroundAThreadThatSleeps) {
  CrowdGauge gauge;
  for (int i = 0; i < 200; ++i) {
    EXPECT_FALSE(gauge.is_crowded(now()));
    for (int sleep = 0; sleep < 10; ++sleep) std::this_thread::sleep_for(1us);
  }
}

}  // namespace
}  // namespace verbatim::host
