// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include "base/expected.h"
#include "host/own_descriptor.h"

namespace verbatim::host {

/// What wakes a thread of the library that waits in poll(2): one thread waits, any thread rings.
///
/// The wait ends as well when the program closes all its descriptors. The thread itself keeps the
/// reading end alive while it waits, and the system reports that the last writing end is gone. So a
/// thread that would never be woken again learns it at once.
class WakePipe {
 public:
  [[nodiscard]] Status open() noexcept;
  void close() noexcept {
    reader_.close();
    writer_.close();
  }
  /// Never blocks, and writes nothing where the program has closed the pipe. errno stays.
  void ring() const noexcept;

  /// For the thread that waits: what it polls.
  [[nodiscard]] pollfd polled() const noexcept {
    return {.fd = reader_.number(), .events = POLLIN, .revents = 0};
  }
  /// After that: takes what was rung. False when the program has closed the pipe: nothing wakes the
  /// thread any more.
  [[nodiscard]] bool take(const pollfd& polled) const noexcept;

 private:
  OwnDescriptor reader_;
  OwnDescriptor writer_;
};

}  // namespace verbatim::host
