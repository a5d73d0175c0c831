// SPDX-License-Identifier: Apache-2.0
#include "rehome/alone.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/own_threads.h"

namespace verbatim::rehome {
namespace {

/// Runs a thread of the library for a moment.
void run_own_thread() {
  OwnThread::announce();
  std::thread([] {
    const OwnThread mine;
    ::usleep(20);
  }).join();
}

/// While one exists, the threads take turns on one processor, so a thread may lose it at any point.
class OneProcessor {
 public:
  OneProcessor() {
    (void)::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(::sched_getcpu()), &one);
    (void)::sched_setaffinity(0, sizeof one, &one);
  }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;
  ~OneProcessor() { (void)::sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

TEST(Alone, IsAProgramWhoseOtherThreadsAreTheLibrarys) {
  EXPECT_TRUE(is_alone());
  run_own_thread();
  EXPECT_TRUE(is_alone());
  bool is_alone_there = true;
  std::atomic<bool> ends{false};
  OwnThread::announce();
  std::thread own([&] {
    const OwnThread mine;
    is_alone_there = is_alone();
    while (!ends) std::this_thread::yield();
  });
  while (!is_alone()) std::this_thread::yield();
  ends = true;
  own.join();
  EXPECT_FALSE(is_alone_there) << "the program's thread is another one";
}

/// A thread of the library that ends between the two countings is in one of them only.
TEST(Alone, IsNoProgramWithAnotherThreadWhileThreadsOfTheLibraryEnd) {
  constexpr int kThreads = 4000;
  const OneProcessor turns;
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    for (int i = 0; i < kThreads; ++i) {
      run_own_thread();
      ::usleep(30);
    }
    is_over = true;
  });
  int found_alone = 0;
  while (!is_over) found_alone += looks_alone() && !is_over ? 1 : 0;
  other.join();
  EXPECT_EQ(found_alone, 0);
}

}  // namespace
}  // namespace verbatim::rehome
