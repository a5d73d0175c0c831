// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/fork_mutex.h"
#include "base/mutex.h"
#include "connect/device.h"

namespace verbatim::connect {

/// The devices of this process. They are opened at first use and stay open as long as their
/// interfaces exist. Thread: any. Its lock is taken before connections_mutex().
class DeviceList {
 public:
  /// Opens the devices of this host whose interfaces are not among `known`. Called with the lock of
  /// the list held. The returned devices are never destroyed.
  using Opener = std::vector<Device*> (*)(const std::vector<std::uint32_t>& known);

  [[nodiscard]] static DeviceList& of_process();

  void set_opener(Opener opener) noexcept { opener_ = opener; }
  /// Empty when there are none.
  [[nodiscard]] std::vector<Device*> all();
  /// Opens devices of new interfaces, and removes devices whose interfaces were removed.
  void refresh();

  [[nodiscard]] ForkMutex& mutex() noexcept VB_RETURNS_LOCK(mutex_) { return mutex_; }
  /// A forked child has no device: the inherited ones belong to its parent. Unlocks the mutex.
  void abandon_in_child() VB_UNCHECKED_LOCKING;
  /// The same for a fork in the middle of a call. It keeps only the opener.
  void forget_in_child() noexcept;
  /// At the end of the process: disconnects all open connections, as a kernel does.
  void take_leave() VB_UNCHECKED_LOCKING;

 private:
  void open_new() VB_REQUIRES(mutex_);

  ForkMutex mutex_;
  Opener opener_ = nullptr;  // set before the first call of all()
  std::vector<Device*> list_ VB_GUARDED_BY(mutex_);
  std::vector<Device*> removed_ VB_GUARDED_BY(mutex_);    // ids may still refer to them
  std::vector<Device*> inherited_ VB_GUARDED_BY(mutex_);  // devices of the parent, unused
  bool is_open_ VB_GUARDED_BY(mutex_) = false;
};

}  // namespace verbatim::connect
