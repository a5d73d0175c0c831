// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <new>

#include "base/fork_mutex.h"
#include "base/thread_safety.h"
#include "base/uncancelled.h"

/// The state that exists once per process, at fork(2) and at exit(3). The subsystems that
/// have a lock or a descriptor at process scope take part here, and nowhere else: there is one
/// pthread_atfork(3) and one atexit(3), both in process.cc.
namespace verbatim::device {

/// The lock order of the process, outermost first. A thread that holds a lock of one rank may take
/// locks of later ranks only. A fork takes all of them in exactly this order, so it waits for no
/// thread that waits for it.
enum class ForkRank : int {
  kListeners,         // connect/listening.cc: where ids listen
  kConnectedDevices,  // connect/device_list.cc: the devices of connections
  kNeighbours,        // connect/host_system.cc: the neighbours that are looked for
  kConnections,       // connect/lock.cc: the ids and their events
  kPause,             // ForkPause, below
  kRehoming,          // rehome: memory that has moved
  kAdapters,  // device/adapter_registry.cc: the table of adapters; then, of all adapters, what is
              // heard from peers, the shared sockets, and the adapters' own locks
  kMovedMemory,  // device/adapter_registry.cc: how the child gets the memory that has moved; no
                 // lock
  kPortWatch,    // device/port_watch.cc: the adapters that follow changes of interfaces
  kGivenPorts,   // connect/given_ports.cc: the ports that were given to ids
  kHandles,      // abi/verbs/handles.cc: which handles exist
  kDevices,      // abi/verbs/device.cc: the devices that programs have seen
  kExistingAdapters,  // device/adapter_registry.cc: which adapters there are
  kPools,             // device/block_pool.cc: memory for objects
};

/// How a subsystem goes through a fork. Any function may be null.
///
/// A handler of a signal may fork in the middle of a call of the library. The thread then holds
/// locks (ForkMutex, the lock of an adapter, a ForkPause) that it cannot release before the handler
/// returns, and other threads that hold further locks may wait for these. Such a fork waits for
/// none of them, but only for locks that are held for a short time with signals blocked (is_quiet).
/// The parent goes on as if nothing had happened. The child gets its memory, and nothing else of
/// the library (forget()): the data that the other locks guard may be in the middle of a change.
struct ForkParticipant {
  ForkRank rank{};
  /// Takes its locks. In the order of ranks. Is called once when the library is loaded, with
  /// parent(), and creates what the locks guard: no fork finds a thread in the middle of that.
  void (*prepare)() = nullptr;
  /// Releases the locks. In the reverse order.
  void (*parent)() = nullptr;
  /// The child has one thread, which holds the locks that prepare() took: it unlocks them, makes
  /// those anew that other threads may have held (renew()), and gives up what belongs to the
  /// parent. In the order of ranks.
  void (*child)() = nullptr;
  /// Instead of child(), where the fork came in the middle of a call: makes anew what there is,
  /// empty and with locks that are free (renew()). It frees nothing and allocates nothing, because
  /// the call may have been in the middle of that, too.
  void (*forget)() = nullptr;
  /// Whether the calling thread holds a lock of its own kind, for locks that are no ForkMutex.
  bool (*is_held_by_me)() = nullptr;
  /// Whether this participant is the first in the child, whatever its rank: the other participants
  /// may use the memory that it brings back.
  bool is_first_in_child = false;
  /// Whether a fork in the middle of a call calls this participant, too. The locks that it takes
  /// are held only by threads that block all signals and wait for nothing. child() is called
  /// instead of forget(). The functions allocate nothing while is_fork_amid_call().
  bool is_quiet = false;
};
/// Registers a participant. An object of static storage duration, one for each rank.
class TakesPartInForks {
 public:
  explicit TakesPartInForks(const ForkParticipant& participant) noexcept;
};

/// In the functions of participants: whether the fork came in the middle of a call.
[[nodiscard]] bool is_fork_amid_call() noexcept;

/// The order in which the subsystems end when the process exits. Other threads may still run, and
/// may have been stopped with locks held, so none of the functions waits without limit. They are
/// called in the process that registered them and in children of fork(3), not in a child of
/// _Fork(3) or clone(2): what such a child has is its parent's.
enum class ExitRank : int {
  kConnections,  // connect/device_list.cc: connections are disconnected
  kAdapters,     // device/adapter_registry.cc: peers get the answers that they are owed
  kCapture,      // device/adapter_registry.cc: the capture is written out
};
class TakesPartInExit {
 public:
  TakesPartInExit(ExitRank rank, void (*leave)()) noexcept;
};

/// While one exists, no fork of another thread begins. It is for code that opens or closes
/// descriptors that a child must not keep (a name in the system, a connection whose end shows that
/// the process has ended) and that takes too long, or needs too many locks, for a lock of its own.
/// Made with no lock of rank kPause or later held. While a fork waits, no new pause begins, except
/// in the library's own threads, for which other threads may be waiting.
class ForkPause {
 public:
  ForkPause() noexcept;
  ForkPause(const ForkPause&) = delete;
  ForkPause& operator=(const ForkPause&) = delete;
  ~ForkPause();

 private:
  Uncancelled uncancelled_;
};

/// The number of forks between the process that loaded the library and this one. An object of
/// another generation belongs to a parent.
[[nodiscard]] std::uint32_t fork_generation() noexcept;

/// In a forked child: the lock or condition is free, whichever other thread of the parent held it
/// or waited for it. Not for a lock that the forking thread holds, except in forget(): the thread
/// sanitizer would treat it as locked for ever. Any other object is empty from then on; its old
/// contents are neither read nor freed.
template <typename Synchronization>
void renew(Synchronization& object) noexcept {
  new (&object) Synchronization;
}

/// In forget(), for an object that the child has from its parent: makes it anew, unless the call
/// that was interrupted is in the middle of changing it. In the child the call continues when the
/// handler returns, finishes the change and releases the mutex.
template <typename Object>
void renew_unless_held(Object& object, const ForkMutex& mutex) noexcept {
  if (!mutex.is_held_by_me()) renew(object);
}

/// Locks at the end of the process: false when the lock stays taken, by a thread that does not run
/// any more or by this very thread.
template <typename Lockable>
[[nodiscard]] bool lock_at_exit(Lockable& lock) noexcept VB_UNCHECKED_LOCKING;
/// A hundred microseconds.
void pause_at_exit() noexcept;

template <typename Lockable>
bool lock_at_exit(Lockable& lock) noexcept {
  constexpr int kTries = 100;
  for (int tries = 0; tries < kTries; ++tries) {
    if (lock.try_lock()) return true;
    pause_at_exit();
  }
  return false;
}

}  // namespace verbatim::device
