// SPDX-License-Identifier: Apache-2.0
// Threads of the library wait for a lock whose page is moving at that moment.
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <thread>

#include "base/mutex.h"
#include "rehome/test_memory.h"
#include "rehome/userfaults.h"

namespace verbatim::rehome {
namespace {

using test::Memory;
using test::page;

constexpr std::uint64_t kMoveFeature = 1U << 16;  // UFFD_FEATURE_MOVE, which older headers lack

/// A page that is taken out and put back, as PageMover does.
class MovingPage {
 public:
  [[nodiscard]] bool open() {
    return faults_.open(kMoveFeature).ok() &&
           faults_.watch(at_.range(), UFFDIO_REGISTER_MODE_MISSING).ok() &&
           faults_.watch(elsewhere_.range(), UFFDIO_REGISTER_MODE_MISSING).ok();
  }
  [[nodiscard]] std::byte* data() { return at_.data(); }
  void take_out() {
    long error = -EBUSY;
    while (error != 0) (void)faults_.move_pages(elsewhere_.range().begin, at_.range(), error);
  }
  [[nodiscard]] bool put_back() {
    long error = 0;
    (void)faults_.move_pages(at_.range().begin, elsewhere_.range(), error);
    faults_.wake(at_.range());
    return error == 0;
  }

 private:
  Memory at_{page()};
  Memory elsewhere_{page()};
  Userfaults faults_;
};

std::atomic<bool> g_is_stopped{false};

/// Stops a thread anywhere: when it goes on, it begins the call again in which it slept.
void stop_thread(std::thread& thread) {
  ::pthread_kill(thread.native_handle(), SIGUSR1);
  while (!g_is_stopped) std::this_thread::yield();
}

// The kernel cannot read the word of the lock. The C library's locks end the process then.
TEST(ALockOnAPageThatMoves, IsWaitedForAndTaken) {
  if (!has_page_moves()) GTEST_SKIP() << "the kernel moves no pages";
  constexpr int kRounds = 200;
  struct Shared {
    Mutex mutex;
    Changes changes;
    int due = 0;
  };
  MovingPage moving;
  // On the page before it is watched: nothing else fills a page that is missing.
  auto& shared = *new (moving.data()) Shared;
  ASSERT_TRUE(moving.open());
  struct sigaction action {};
  action.sa_handler = [](int) {
    g_is_stopped = true;
    while (g_is_stopped) std::this_thread::yield();
  };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
  for (const bool waits_for_change : {false, true}) {
    int taken = 0;
    std::thread thread([&] {
      for (int round = 0; round < kRounds; ++round) {
        const LockGuard lock(shared.mutex);
        if (waits_for_change) {
          shared.changes.wait(shared.mutex, [&] { return shared.due > round; });
        }
        ++taken;
      }
    });
    for (int round = 0; round < kRounds; ++round) {
      if (!waits_for_change) shared.mutex.lock();
      if (!waits_for_change && taken == kRounds) {  // it took the lock whenever it was free
        shared.mutex.unlock();
        break;
      }
      stop_thread(thread);
      moving.take_out();
      g_is_stopped = false;
      for (int i = 0; i < 20; ++i) std::this_thread::yield();  // it goes on
      ASSERT_TRUE(moving.put_back());
      if (waits_for_change) shared.mutex.lock();
      ++shared.due;
      shared.changes.notify_all();
      shared.mutex.unlock();
    }
    thread.join();
    EXPECT_EQ(taken, kRounds);
    shared.due = 0;
  }
}

}  // namespace
}  // namespace verbatim::rehome
