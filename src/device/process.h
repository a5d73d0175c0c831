// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <new>

#include "base/uncancelled.h"

/// What there is once per process, and how it goes through fork(2) and exit(3). The subsystems that
/// have a lock or a descriptor at process scope take part here, and nowhere else: there is one
/// pthread_atfork(3) and one atexit(3), both in process.cc.
namespace verbatim::device {

/// The lock order of the process, outermost first. A thread that holds a lock of one rank may take
/// locks of later ranks only. A fork takes all of them in exactly this order, so it waits for no
/// thread that waits for it.
enum class ForkRank : int {
  kListeners,         // abi/rdmacm/wildcards.cc: where ids listen
  kConnectedDevices,  // abi/rdmacm/device.cc: the devices of rdma_cm
  kNeighbours,        // abi/rdmacm/neighbours.cc: the neighbours that are looked for
  kEvents,            // abi/rdmacm/channel.cc: the events of rdma_cm, and which id has which
  kPause,             // ForkPause, below
  kRehoming,          // rehome: memory that has moved
  kAdapters,  // device/adapter.cc: the table of adapters; then, of all adapters, what is heard from
              // peers, the shared sockets, and the adapters' own locks
  kMovedMemory,  // device/adapter.cc: how the child gets the memory that has moved; no lock
  kPortWatch,    // device/port_watch.cc: the adapters that are told of changes
  kGivenPorts,   // device/gsi.cc: the ports that were given to ids
  kHandles,      // abi/verbs/handles.cc: which handles exist
  kDevices,      // abi/verbs/device.cc: the devices that programs have seen
  kPools,        // device/block_pool.cc: memory for objects
};

/// How a subsystem goes through a fork. Any function may be null.
struct ForkParticipant {
  ForkRank rank{};
  /// Takes its locks. Creates what it guards where that does not exist yet, so that no thread is in
  /// the middle of creating it. In the order of ranks.
  void (*prepare)() = nullptr;
  /// Lets the locks go. In the reverse order.
  void (*parent)() = nullptr;
  /// The child has one thread, which holds the locks that prepare() took: it unlocks them, makes
  /// those anew that other threads may have held (renew()), and gives up what belongs to the
  /// parent. In the order of ranks.
  void (*child)() = nullptr;
  /// Whether it is the first in the child, whatever its rank: the others may touch the memory that
  /// it brings back.
  bool is_first_in_child = false;
};
/// Registers a participant. An object of static storage duration, one for each rank.
class TakesPartInForks {
 public:
  explicit TakesPartInForks(const ForkParticipant& participant) noexcept;
};

/// The order in which the subsystems end when the process exits. Other threads may still run, and
/// may have been stopped with locks held, so none of the functions waits without limit. They are
/// called in the process that registered them and in children of fork(3), not in a child of
/// _Fork(3) or clone(2): what such a child has is its parent's.
enum class ExitRank : int {
  kConnections,  // abi/rdmacm/device.cc: peers are told that connections end
  kAdapters,     // device/adapter.cc: peers get the answers that they are owed
  kCapture,      // device/adapter.cc: the capture is written out
};
class TakesPartInExit {
 public:
  TakesPartInExit(ExitRank rank, void (*leave)()) noexcept;
};

/// While one exists no other thread's fork begins; for what opens or closes descriptors that a
/// child must not keep (a name in the system, a connection whose end tells of the process's death)
/// and is too long or too entangled for a lock. Made with no lock of rank kPause or later held. A
/// fork that waits lets no new ones begin, but for those in the library's own threads, which other
/// threads may be waiting for.
class ForkPause {
 public:
  ForkPause() noexcept;
  ForkPause(const ForkPause&) = delete;
  ForkPause& operator=(const ForkPause&) = delete;
  ~ForkPause();

 private:
  Uncancelled uncancelled_;
};

/// Counts the forks that lie between this process and the one that loaded the library: what was
/// made in another generation is a parent's.
[[nodiscard]] std::uint32_t fork_generation() noexcept;

/// In a forked child: the lock or condition is free, whichever other thread of the parent held it
/// or waited for it. Not for a lock that the forking thread holds: the thread sanitizer would take
/// it for locked for ever.
template <typename Synchronization>
void renew(Synchronization& object) noexcept {
  new (&object) Synchronization;
}

/// Locks at the end of the process: false when the lock stays taken, by a thread that does not run
/// any more or by this very thread.
template <typename Lockable>
[[nodiscard]] bool lock_at_exit(Lockable& lock) noexcept;
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
