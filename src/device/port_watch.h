// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/expected.h"
#include "base/fork_mutex.h"
#include "base/mutex.h"
#include "host/own_descriptor.h"
#include "host/wake_pipe.h"

namespace verbatim::device {

class Adapter;

/// The thread of a process that hears from the kernel (rtnetlink) when interfaces and addresses
/// come, change and go, and tells the adapters. It is there while there is an adapter, and sleeps
/// until something happens. A process that gets no such thread or socket hears of nothing.
///
/// All signals are blocked in it: they belong to the program.
class PortWatch {
 public:
  [[nodiscard]] static PortWatch& of_process();

  PortWatch() = default;
  PortWatch(const PortWatch&) = delete;
  PortWatch& operator=(const PortWatch&) = delete;

  /// Adapter::handle_interfaces() is called from now on; once at the beginning, for what has
  /// happened since somebody looked.
  void add(Adapter& adapter);
  /// No more. Waits while it is being told something, unless it is the thread itself that asks.
  void remove(Adapter& adapter) noexcept;

  /// Held while the process forks.
  [[nodiscard]] ForkMutex& mutex() noexcept VB_RETURNS_LOCK(mutex_) { return mutex_; }
  /// In a forked child, which has no adapters yet: closes what it has inherited, forgets the
  /// adapters and unlocks the mutex.
  void abandon_in_child() noexcept VB_UNCHECKED_LOCKING;

  /// Called after the adapters, with no lock held, in the thread.
  void set_observer(void (*observer)()) noexcept;

 private:
  /// One thread's, from its start to its end.
  struct Life {
    host::OwnDescriptor notices;  // the kernel's
    host::WakePipe bell;          // the library's
    std::atomic<bool> is_ending{false};
    std::atomic<bool> has_ended{false};  // by itself: the program has closed the descriptors
  };
  [[nodiscard]] Status start() VB_REQUIRES(mutex_);
  void bury() noexcept VB_REQUIRES(mutex_);
  void run(Life& life) noexcept;
  void look();

  ForkMutex mutex_;  // not held while adapters are told
  std::vector<Adapter*> adapters_ VB_GUARDED_BY(mutex_);
  void (*observer_)() VB_GUARDED_BY(mutex_) = nullptr;
  std::shared_ptr<Life> life_ VB_GUARDED_BY(mutex_);  // null: no thread
  std::thread thread_;
  Mutex telling_;  // held while adapters are told
};

}  // namespace verbatim::device
