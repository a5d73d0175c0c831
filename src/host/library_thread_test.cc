// SPDX-License-Identifier: Apache-2.0
#include "host/library_thread.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "base/own_threads.h"

namespace verbatim::host {
namespace {

bool blocks(int signal) {
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return ::sigismember(&blocked, signal) == 1;
}

TEST(LibraryThread, IsOneOfTheLibraryAndBlocksSignals) {
  struct Seen {
    bool is_own = false;
    bool blocks_interrupt = false;
    bool blocks_fault = false;
    std::array<char, 16> name{};
  };
  const int before = OwnThread::count();
  for (const auto faults : {LibraryThread::Faults::kBlocked, LibraryThread::Faults::kOpen}) {
    Seen seen;
    std::atomic<bool> goes_on{false};
    LibraryThread thread;
    const auto body = [&] {
      while (!goes_on) ::usleep(100);  // it has got its name
      seen = {.is_own = OwnThread::is_mine(),
              .blocks_interrupt = blocks(SIGINT),
              .blocks_fault = blocks(SIGSEGV)};
      ::pthread_getname_np(::pthread_self(), seen.name.data(), seen.name.size());
    };
    ASSERT_TRUE(thread.start("a name", body, faults).ok());
    EXPECT_TRUE(thread.exists());
    EXPECT_FALSE(thread.is_this_thread());
    goes_on = true;
    LibraryThread moved = std::move(thread);
    moved.join();
    EXPECT_FALSE(moved.exists());
    EXPECT_TRUE(seen.is_own);
    EXPECT_TRUE(seen.blocks_interrupt);
    EXPECT_EQ(seen.blocks_fault, faults == LibraryThread::Faults::kBlocked);
    EXPECT_EQ(std::string(seen.name.data()), "a name");
    EXPECT_FALSE(blocks(SIGINT)) << "the caller's signals are as they were";
  }
  EXPECT_EQ(OwnThread::count(), before);
}

/// The system gives no thread when its stack does not fit into the address space. The C library
/// keeps the stacks of a few threads that have ended.
TEST(LibraryThread, ThatTheSystemRefusesIsAnError) {
#if VB_ADDRESS_SANITIZER || VB_THREAD_SANITIZER
  GTEST_SKIP() << "sanitizers need terabytes of addresses";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    if (::setrlimit(RLIMIT_AS, &none) != 0) ::_exit(2);
    static std::array<LibraryThread, 64> threads;
    for (LibraryThread& thread : threads) {
      const auto started = thread.start("waits", [] { ::pause(); });
      if (!started) ::_exit(started.error() == Errc::kNoMemory && !thread.exists() ? 0 : 1);
    }
    ::_exit(3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace verbatim::host
