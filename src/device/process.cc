// SPDX-License-Identifier: Apache-2.0
#include "device/process.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "base/assert.h"
#include "base/fork_mutex.h"
#include "base/mutex.h"
#include "base/own_threads.h"
#include "base/process_wide.h"

namespace verbatim::device {
namespace {

constexpr std::size_t kParticipantsMax = 16;

/// Participants in the order of their ranks. They register while the library is loaded, before it
/// has threads.
template <typename Participant>
struct Ranked {
  std::array<Participant, kParticipantsMax> all{};
  std::size_t count = 0;

  void insert(const Participant& participant) noexcept {
    VB_ASSERT(count < all.size());
    std::size_t at = count++;
    for (; at > 0 && all[at - 1].rank > participant.rank; --at) all[at] = all[at - 1];
    VB_ASSERT(at == 0 || all[at - 1].rank != participant.rank);
    all[at] = participant;
  }
};

struct Leaving {
  ExitRank rank{};
  void (*leave)() = nullptr;
};

constinit Ranked<ForkParticipant> g_forks;
constinit Ranked<Leaving> g_exits;
constinit std::mutex g_forking;  // held by a fork from its beginning to its end
pid_t g_process = 0;             // whose resources these are

/// A fork under way, and what its thread had before.
struct Forking {
  bool is_amid_call = false;
  int cancel_state = 0;
  sigset_t signals{};  // that were blocked
};
constinit thread_local Forking forking;

constinit std::atomic<std::uint32_t> g_generation{0};

/// Counts pauses against forks.
struct Gate {
  ForkMutex mutex;
  Changes changed;
  int pauses VB_GUARDED_BY(mutex) = 0;
  bool is_shut VB_GUARDED_BY(mutex) = false;  // by a fork that waits, or is under way
};
Gate& gate() noexcept {
  return process_wide([] { return new Gate; });
}
constinit thread_local int pauses_of_thread = 0;

void shut_gate() noexcept VB_UNCHECKED_LOCKING {
  Gate& all = gate();
  all.mutex.lock();  // until the gate is opened
  all.is_shut = true;
  all.changed.wait(all.mutex, [&]() VB_REQUIRES(all.mutex) { return all.pauses == 0; });
}

void open_gate() noexcept VB_UNCHECKED_LOCKING {
  Gate& all = gate();
  all.is_shut = false;
  all.changed.notify_all();
  all.mutex.unlock();
}

void make_gate_anew() noexcept VB_UNCHECKED_LOCKING {
  Gate& all = gate();
  renew(all.changed);  // threads of the parent may have waited for it
  all.pauses = 0;
  all.is_shut = false;
  all.mutex.unlock();
}

/// The call that was interrupted may go on in the child, and end its pause.
void forget_gate() noexcept VB_UNCHECKED_LOCKING {
  renew(gate());
  gate().pauses = pauses_of_thread;
}

const TakesPartInForks kGateInForks({.rank = ForkRank::kPause,
                                     .prepare = shut_gate,
                                     .parent = open_gate,
                                     .child = make_gate_anew,
                                     .forget = forget_gate});

/// Whether the thread is in the middle of a call of the library, which a signal has interrupted.
bool is_amid_call() noexcept {
  if (ForkMutex::is_any_held_by_me() || pauses_of_thread > 0) return true;
  return std::any_of(g_forks.all.begin(), g_forks.all.begin() + g_forks.count,
                     [](const ForkParticipant& each) {
                       return each.is_held_by_me != nullptr && each.is_held_by_me();
                     });
}

/// From its beginning to its end a fork is not interrupted by signals, whose handlers might fork as
/// well. Faults stay possible. Signals that the C library itself uses are not blocked by this call.
void block_signals(sigset_t& before) noexcept {
  sigset_t all;
  ::sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
    ::sigdelset(&all, fault);
  }
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
}

/// fork(3) is not a place where threads are cancelled; waiting for a lock's condition is one.
void prepare_fork() noexcept {
  Forking mine;
  block_signals(mine.signals);
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mine.cancel_state);
  mine.is_amid_call = is_amid_call();
  if (!mine.is_amid_call) g_forking.lock();  // the C library lets several threads in here
  forking = mine;
  for (std::size_t i = 0; i < g_forks.count; ++i) {
    const ForkParticipant& each = g_forks.all[i];
    if (mine.is_amid_call && !each.is_quiet) continue;
    if (each.prepare != nullptr) each.prepare();
  }
}

void end_fork() noexcept {
  const Forking mine = std::exchange(forking, Forking{});
  ::pthread_setcancelstate(mine.cancel_state, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &mine.signals, nullptr);
}

void end_fork_in_parent() noexcept {
  for (std::size_t i = g_forks.count; i > 0; --i) {
    const ForkParticipant& each = g_forks.all[i - 1];
    if (forking.is_amid_call && !each.is_quiet) continue;
    if (each.parent != nullptr) each.parent();
  }
  if (!forking.is_amid_call) g_forking.unlock();
  end_fork();
}

void end_fork_in_child() noexcept {
  g_process = ::getpid();
  g_generation.fetch_add(1, std::memory_order_relaxed);
  OwnThread::reset_in_child();
  for (const bool is_first : {true, false}) {
    for (std::size_t i = 0; i < g_forks.count; ++i) {
      const ForkParticipant& each = g_forks.all[i];
      if (each.is_first_in_child != is_first) continue;
      const bool forgets = forking.is_amid_call && !each.is_quiet;
      void (*const step)() = forgets ? each.forget : each.child;
      if (step != nullptr) step();
    }
  }
  forking.is_amid_call ? renew(g_forking) : g_forking.unlock();
  end_fork();
}

void leave() noexcept {
  if (::getpid() != g_process) return;
  for (std::size_t i = 0; i < g_exits.count; ++i) g_exits.all[i].leave();
}

/// While the library is loaded, by one thread. Where there is no memory for the handlers, which are
/// the first of the process, there is none for the program either.
void install() noexcept {
  static constinit bool is_installed = false;
  if (is_installed) return;
  is_installed = true;
  g_process = ::getpid();
  const bool in_forks = ::pthread_atfork(prepare_fork, end_fork_in_parent, end_fork_in_child) == 0;
  const bool in_exit = std::atexit(leave) == 0;
  VB_ASSERT(in_forks && in_exit);
}

}  // namespace

TakesPartInForks::TakesPartInForks(const ForkParticipant& participant) noexcept {
  install();
  g_forks.insert(participant);
  if (participant.prepare != nullptr) participant.prepare();
  if (participant.parent != nullptr) participant.parent();
}

TakesPartInExit::TakesPartInExit(ExitRank rank, void (*leave)()) noexcept {
  install();
  g_exits.insert({.rank = rank, .leave = leave});
}

ForkPause::ForkPause() noexcept {
  Gate& all = gate();
  const LockGuard lock(all.mutex);
  if (pauses_of_thread == 0 && !OwnThread::is_mine()) {
    all.changed.wait(all.mutex, [&]() VB_REQUIRES(all.mutex) { return !all.is_shut; });
  }
  ++all.pauses;
  ++pauses_of_thread;
}

ForkPause::~ForkPause() {
  Gate& all = gate();
  const LockGuard lock(all.mutex);
  --all.pauses;
  --pauses_of_thread;
  all.changed.notify_all();
}

bool is_fork_amid_call() noexcept { return forking.is_amid_call; }

std::uint32_t fork_generation() noexcept { return g_generation.load(std::memory_order_relaxed); }

void pause_at_exit() noexcept {
  const timespec hundred_microseconds{.tv_sec = 0, .tv_nsec = 100'000};
  (void)::clock_nanosleep(CLOCK_MONOTONIC, 0, &hundred_microseconds, nullptr);
}

}  // namespace verbatim::device
