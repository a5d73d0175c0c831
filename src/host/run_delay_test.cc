// SPDX-License-Identifier: Apache-2.0
#include "host/run_delay.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

namespace verbatim::host {
namespace {

TEST(RunDelay, GrowsWhileAnotherThreadHasTheProcessor) {
  if (!run_delay()) GTEST_SKIP() << "the system keeps no account";
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::size_t processor = 0;
  while (!CPU_ISSET(processor, &allowed)) ++processor;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  std::atomic<bool> is_over{false};
  std::thread([&] {
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    std::thread other([&] {  // on the same processor
      while (!is_over.load()) {
      }
    });
    const auto before = run_delay();
    while (*run_delay() == *before) ::sched_yield();
    is_over = true;
    other.join();
  }).join();
}

}  // namespace
}  // namespace verbatim::host
