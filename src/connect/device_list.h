// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/fork_mutex.h"
#include "connect/device.h"

namespace verbatim::connect {

/// The devices of this process, opened at first use; they stay open as long as their interfaces
/// stay. Any thread. Its lock is taken before connections_mutex().
class DeviceList {
 public:
  /// Opens the devices of this host whose interfaces are not among `known`. Called with the lock of
  /// the list held; what it returns is never destroyed.
  using Opener = std::vector<Device*> (*)(const std::vector<std::uint32_t>& known);

  [[nodiscard]] static DeviceList& of_process();

  void set_opener(Opener opener) noexcept { opener_ = opener; }
  /// Empty when there are none.
  [[nodiscard]] std::vector<Device*> all();
  /// Opens those that have come, and leaves out those that have gone.
  void refresh();

  [[nodiscard]] ForkMutex& mutex() noexcept { return mutex_; }
  /// A forked child has no device: those it inherited are its parent's. Unlocks the mutex.
  void abandon_in_child();
  /// The same where the fork came in the middle of a call: only the opener is left.
  void forget_in_child() noexcept;
  /// At the end of the process, however much it left open: peers are told, as a kernel would tell
  /// them.
  void take_leave();

 private:
  void open_new();

  ForkMutex mutex_;
  Opener opener_ = nullptr;
  std::vector<Device*> list_;
  std::vector<Device*> removed_;    // ids may still stand on them
  std::vector<Device*> inherited_;  // a child's, of no use to it
  bool is_open_ = false;
};

}  // namespace verbatim::connect
