// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/expected.h"
#include "base/fork_mutex.h"
#include "base/mutex.h"
#include "host/library_thread.h"
#include "host/own_descriptor.h"
#include "host/wake_pipe.h"

namespace verbatim::device {

class Adapter;

/// The thread of a process that is notified by the kernel (rtnetlink) when interfaces and addresses
/// are added, change and are removed, and tells the adapters. It exists while there is an adapter,
/// and sleeps until something happens. A process that gets no such thread or socket does not notice
/// changes.
///
/// All signals are blocked in it: they belong to the program.
class PortWatch {
 public:
  [[nodiscard]] static PortWatch& of_process();

  PortWatch() = default;
  PortWatch(const PortWatch&) = delete;
  PortWatch& operator=(const PortWatch&) = delete;

  /// From now on the thread calls Adapter::handle_interfaces() after each change, and once at the
  /// beginning, because changes may have happened since the interfaces were read.
  void add(Adapter& adapter);
  /// The adapter gets no more calls. Waits while a call is under way, unless the caller is the
  /// thread itself.
  void remove(Adapter& adapter) noexcept;

  /// Held while the process forks.
  [[nodiscard]] ForkMutex& mutex() noexcept VB_RETURNS_LOCK(mutex_) { return mutex_; }
  /// In a forked child, which has no adapters yet: closes inherited descriptors, forgets the
  /// adapters and unlocks the mutex.
  void abandon_in_child() noexcept VB_UNCHECKED_LOCKING;

  /// The thread calls this after the adapters, with no lock held.
  void set_observer(void (*observer)()) noexcept;

 private:
  /// The state of one thread, from its start to its end.
  struct ThreadState {
    host::OwnDescriptor notices;  // from the kernel
    host::WakePipe bell;          // from the library
    std::atomic<bool> is_ending{false};
    std::atomic<bool> has_ended{false};  // by itself: its descriptors were closed
  };
  [[nodiscard]] Status start() VB_REQUIRES(mutex_);
  void bury() noexcept VB_REQUIRES(mutex_);
  void run(ThreadState& state) noexcept;
  /// False when the interfaces could not be read.
  [[nodiscard]] bool look();

  ForkMutex mutex_;  // not held while adapters are told
  std::vector<Adapter*> adapters_ VB_GUARDED_BY(mutex_);
  void (*observer_)() VB_GUARDED_BY(mutex_) = nullptr;
  std::shared_ptr<ThreadState> thread_state_ VB_GUARDED_BY(mutex_);  // null: no thread
  host::LibraryThread thread_;
  Mutex telling_;  // held while adapters are told
};

}  // namespace verbatim::device
