// SPDX-License-Identifier: Apache-2.0
#include "device/process.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>

#include "base/assert.h"
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
int g_cancel_state = 0;          // of the thread that forks, before that
pid_t g_process = 0;             // whose resources these are

constinit std::atomic<std::uint32_t> g_generation{0};

/// Counts pauses against forks.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int pauses = 0;
  bool is_shut = false;  // by a fork that waits, or is under way
};
Gate& gate() noexcept {
  return process_wide([] { return new Gate; });
}
constinit thread_local int pauses_of_thread = 0;

/// A thread that pauses forks and then forks, in a handler of a signal, does not wait for itself.
void shut_gate() noexcept {
  Gate& all = gate();
  std::unique_lock lock(all.mutex);
  all.is_shut = true;
  all.changed.wait(lock, [&] { return all.pauses == pauses_of_thread; });
  lock.release();  // and stays locked until the gate is opened
}

void open_gate() noexcept {
  Gate& all = gate();
  all.is_shut = false;
  all.changed.notify_all();
  all.mutex.unlock();
}

void make_gate_anew() noexcept {
  Gate& all = gate();
  renew(all.changed);  // threads of the parent may have waited for it
  all.pauses = pauses_of_thread;
  all.is_shut = false;
  all.mutex.unlock();
}

const TakesPartInForks kGateInForks(
    {.rank = ForkRank::kPause, .prepare = shut_gate, .parent = open_gate, .child = make_gate_anew});

/// fork(3) is not a place where threads are cancelled; waiting for a lock's condition is one.
void prepare_fork() noexcept {
  int cancel_state = 0;
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  g_forking.lock();  // the C library lets several threads in here
  g_cancel_state = cancel_state;
  for (std::size_t i = 0; i < g_forks.count; ++i) {
    if (g_forks.all[i].prepare != nullptr) g_forks.all[i].prepare();
  }
}

void end_fork_in_parent() noexcept {
  for (std::size_t i = g_forks.count; i > 0; --i) {
    if (g_forks.all[i - 1].parent != nullptr) g_forks.all[i - 1].parent();
  }
  const int cancel_state = g_cancel_state;
  g_forking.unlock();
  ::pthread_setcancelstate(cancel_state, nullptr);
}

void end_fork_in_child() noexcept {
  g_process = ::getpid();
  g_generation.fetch_add(1, std::memory_order_relaxed);
  OwnThread::reset_in_child();
  for (const bool is_first : {true, false}) {
    for (std::size_t i = 0; i < g_forks.count; ++i) {
      const ForkParticipant& each = g_forks.all[i];
      if (each.child != nullptr && each.is_first_in_child == is_first) each.child();
    }
  }
  g_forking.unlock();
  ::pthread_setcancelstate(g_cancel_state, nullptr);
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
}

TakesPartInExit::TakesPartInExit(ExitRank rank, void (*leave)()) noexcept {
  install();
  g_exits.insert({.rank = rank, .leave = leave});
}

ForkPause::ForkPause() noexcept {
  Gate& all = gate();
  std::unique_lock lock(all.mutex);
  if (pauses_of_thread == 0 && !OwnThread::is_mine()) {
    all.changed.wait(lock, [&] { return !all.is_shut; });
  }
  ++all.pauses;
  ++pauses_of_thread;
}

ForkPause::~ForkPause() {
  Gate& all = gate();
  const std::lock_guard lock(all.mutex);
  --all.pauses;
  --pauses_of_thread;
  all.changed.notify_all();
}

std::uint32_t fork_generation() noexcept { return g_generation.load(std::memory_order_relaxed); }

void pause_at_exit() noexcept {
  const timespec hundred_microseconds{.tv_sec = 0, .tv_nsec = 100'000};
  (void)::clock_nanosleep(CLOCK_MONOTONIC, 0, &hundred_microseconds, nullptr);
}

}  // namespace verbatim::device
