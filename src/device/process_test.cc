// SPDX-License-Identifier: Apache-2.0
#include "device/process.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/fork_mutex.h"
#include "base/own_threads.h"

namespace verbatim::device {
namespace {

std::string g_history;  // what the participants did, one letter each
int g_exit_pipe = -1;   // where the exit participants write

// Registered against the order of ranks.
bool g_raises = false;  // a signal, once, in the middle of a fork
const TakesPartInForks kLater({.rank = ForkRank::kHandles,
                               .prepare =
                                   [] {
                                     g_history += 'b';
                                     if (std::exchange(g_raises, false)) (void)::raise(SIGUSR1);
                                   },
                               .parent = [] { g_history += 'B'; },
                               .child = [] { g_history += '2'; },
                               .forget = [] { g_history += '9'; }});
const TakesPartInForks kQuiet({.rank = ForkRank::kGivenPorts,
                               .prepare = [] { g_history += is_fork_amid_call() ? 'Q' : 'q'; },
                               .is_quiet = true});
bool g_is_held = false;
const TakesPartInForks kEarlier({.rank = ForkRank::kListeners,
                                 .prepare = [] { g_history += 'a'; },
                                 .parent = [] { g_history += 'A'; },
                                 .child = [] { g_history += '1'; },
                                 .forget = [] { g_history += '8'; },
                                 .is_held_by_me = [] { return g_is_held; }});
const TakesPartInExit kLastAtExit(ExitRank::kConnections, [] {
  if (g_exit_pipe >= 0) (void)!::write(g_exit_pipe, "x", 1);
});

int exit_status_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Process, ForksGoThroughTheRanksInOrderAndBack) {
  g_history.clear();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(g_history == "aqb12" ? 0 : 1);
  EXPECT_EQ(exit_status_of(child), 0);
  EXPECT_EQ(g_history, "aqbBA");
}

/// As in a handler of a signal that has interrupted a call of the library.
void expect_fork_that_waits_for_nothing() {
  g_history.clear();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(g_history == "Q89" ? 0 : 1);
  EXPECT_EQ(exit_status_of(child), 0);
  EXPECT_EQ(g_history, "Q");
  EXPECT_FALSE(is_fork_amid_call());
}

TEST(Process, AForkByAThreadThatHasLocksWaitsForNone) {
  ForkMutex mutex;
  {
    const std::lock_guard lock(mutex);
    EXPECT_FALSE(mutex.try_lock());
    expect_fork_that_waits_for_nothing();
  }
  g_is_held = true;
  expect_fork_that_waits_for_nothing();
  g_is_held = false;
  {
    const ForkPause pause;
    expect_fork_that_waits_for_nothing();
  }
  g_history.clear();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  EXPECT_EQ(exit_status_of(child), 0);
  EXPECT_EQ(g_history, "aqbBA") << "the next one has none";
}

/// The fork of another thread holds the lock of all forks and waits for the pause of this thread. A
/// fork by this thread does not wait for that lock.
TEST(Process, AForkByAThreadThatHasLocksDoesNotWaitForAnotherFork) {
  std::optional<ForkPause> pause;
  pause.emplace();
  std::atomic<bool> is_there{false};
  std::thread other([&] {
    is_there = true;
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    EXPECT_EQ(exit_status_of(child), 0);
  });
  while (!is_there) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it waits for the pause by now
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  EXPECT_EQ(exit_status_of(child), 0);
  pause.reset();
  other.join();
}

/// A handler that forks does not interrupt a fork.
TEST(Process, SignalsWaitForTheEndOfAFork) {
  static std::atomic<int> forks{0};
  struct sigaction action {};
  action.sa_handler = [](int) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    if (::waitpid(child, nullptr, 0) == child) ++forks;
  };
  ::sigaction(SIGUSR1, &action, nullptr);
  g_raises = true;
  g_history.clear();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  EXPECT_EQ(exit_status_of(child), 0);
  EXPECT_EQ(forks, 1);
  EXPECT_EQ(g_history, "aqbBAaqbBA") << "one after the other";
  ::signal(SIGUSR1, SIG_DFL);
}

TEST(Process, AForkWaitsForThePausesOfOtherThreads) {
  std::atomic<bool> pausing{false};
  std::atomic<bool> over{false};
  std::thread other([&] {
    const ForkPause pause;
    pausing = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    over = true;
  });
  while (!pausing) std::this_thread::yield();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(over ? 0 : 1);
  EXPECT_EQ(exit_status_of(child), 0);
  other.join();
}

TEST(Process, AThreadThatPausesForksCanForkAndPauseAgain) {
  const ForkPause pause;
  const pid_t child = ::fork();
  if (child == 0) {
    const ForkPause again;
    ::_exit(0);
  }
  const ForkPause again;
  EXPECT_EQ(exit_status_of(child), 0);
}

/// A pause that waits for a thread of the library, which pauses forks as well, while a fork waits.
TEST(Process, PausesOfTheLibrarysThreadsBeginWhileAForkWaits) {
  std::atomic<int> step{0};
  std::thread waits([&] {
    const ForkPause pause;
    step = 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the fork waits by now
    std::thread own([] {
      const OwnThread mine;
      const ForkPause pause_of_own;
    });
    own.join();
    step = 2;
  });
  while (step == 0) std::this_thread::yield();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(step == 2 ? 0 : 1);
  EXPECT_EQ(exit_status_of(child), 0);
  waits.join();
}

TEST(Process, ManyForksAndPausesOfManyThreadsAllEnd) {
  std::atomic<bool> stop{false};
  std::thread pausing[2];
  for (std::thread& thread : pausing) {
    thread = std::thread([&] {
      while (!stop) const ForkPause pause;
    });
  }
  std::thread forking[2];
  for (std::thread& thread : forking) {
    thread = std::thread([] {
      for (int i = 0; i < 50; ++i) {
        const pid_t child = ::fork();
        if (child == 0) {
          const ForkPause pause;  // the child's gate is open
          ::_exit(0);
        }
        EXPECT_EQ(exit_status_of(child), 0);
      }
    });
  }
  for (std::thread& thread : forking) thread.join();
  stop = true;
  for (std::thread& thread : pausing) thread.join();
}

TEST(Process, AThreadThatIsCancelledForksAllTheSame) {
  std::atomic<bool> forked{false};
  std::thread thread([&] {
    ::pthread_cancel(::pthread_self());
    const pid_t child = ::fork();  // no place to be cancelled at
    if (child == 0) ::_exit(0);
    forked = true;
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    EXPECT_EQ(exit_status_of(child), 0);
  });
  thread.join();
  EXPECT_TRUE(forked);
}

TEST(Process, CountsTheLibrarysThreadsAndNoneInAChild) {
  const int before = own_thread_count();  // other tests may have started the monitor
  std::atomic<bool> there{false};
  std::atomic<bool> go{false};
  std::thread own([&] {
    const OwnThread mine;
    EXPECT_TRUE(OwnThread::is_mine());
    there = true;
    while (!go) std::this_thread::yield();
  });
  while (!there) std::this_thread::yield();
  EXPECT_EQ(own_thread_count(), before + 1);
  EXPECT_FALSE(OwnThread::is_mine());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(own_thread_count());
  EXPECT_EQ(exit_status_of(child), 0);
  go = true;
  own.join();
  EXPECT_EQ(own_thread_count(), before);
}

/// How many exit participants ran in a child that `make` made and that exits.
template <typename Make>
int exits_in_child(Make&& make) {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  const pid_t child = make();
  if (child == 0) {
    g_exit_pipe = ends[1];
    std::exit(0);
  }
  ::close(ends[1]);
  char octets[8];
  const auto count = static_cast<int>(::read(ends[0], octets, sizeof octets));
  ::close(ends[0]);
  EXPECT_EQ(exit_status_of(child), 0);
  return count;
}

TEST(Process, ExitParticipantsDoNotRunInAChildOfClone) {
  EXPECT_EQ(exits_in_child([] { return ::fork(); }), 1);
  EXPECT_EQ(
      exits_in_child([] {
        return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
      }),
      0);
}

}  // namespace
}  // namespace verbatim::device
