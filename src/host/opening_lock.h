// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <utility>

#include "base/expected.h"
#include "base/time.h"

namespace verbatim::host {

/// Held by the one process of this user that is changing the sockets of the port. An abstract UNIX
/// name: the kernel releases it when its holder ends, however it ends.
///
/// A holder that is stopped keeps it. Whoever waits gives up after its patience and can say for
/// whom it waited.
class OpeningLock {
 public:
  OpeningLock() noexcept = default;
  OpeningLock(OpeningLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  OpeningLock& operator=(OpeningLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  OpeningLock(const OpeningLock&) = delete;
  OpeningLock& operator=(const OpeningLock&) = delete;
  ~OpeningLock() { release(); }

  struct Holder {
    pid_t pid = 0;  // 0: unknown
    uid_t uid = 0;
  };
  /// kTimedOut when one and the same `holder` has kept it for the whole of `patience`: a crowd of
  /// newcomers is waited for, however long it takes.
  [[nodiscard]] static Expected<OpeningLock> take(Duration patience, Holder& holder) noexcept;
  void release() noexcept;

 private:
  int descriptor_ = -1;
};

}  // namespace verbatim::host
