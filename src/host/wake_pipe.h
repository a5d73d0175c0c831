// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include "base/expected.h"
#include "host/own_descriptor.h"

namespace verbatim::host {

/// Wakes a thread of the library that waits in poll(2): one thread waits, any thread rings.
///
/// The wait also ends when the program closes all its descriptors. poll(2) keeps the reading end
/// alive while the thread waits, and the kernel reports that the last writing end is gone. So a
/// thread that nothing could wake any more learns this at once.
class WakePipe {
 public:
  [[nodiscard]] Status open() noexcept;
  void close() noexcept {
    reader_.close();
    writer_.close();
  }
  /// Never blocks, and writes nothing where the program has closed the pipe. errno stays.
  void ring() const noexcept;

  /// For the thread that waits: the descriptor to poll.
  [[nodiscard]] pollfd polled() const noexcept {
    return {.fd = reader_.number(), .events = POLLIN, .revents = 0};
  }
  /// After poll(2): reads the pipe. False when the program has closed it: then nothing can wake the
  /// thread any more.
  [[nodiscard]] bool take(const pollfd& polled) const noexcept;

 private:
  OwnDescriptor reader_;
  OwnDescriptor writer_;
};

}  // namespace verbatim::host
