// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <utility>

#include "base/expected.h"
#include "base/time.h"

namespace verbatim::host {

/// Held by the one process of this user that changes the sockets of the port: a lock on a file in
/// the RuntimeDirectory, where no other user can take it. The kernel releases it when its holder
/// ends, however it ends.
///
/// A holder that is stopped keeps it. A process that waits gives up after its patience and learns
/// which process held it.
class OpeningLock {
 public:
  OpeningLock() noexcept = default;
  OpeningLock(OpeningLock&& other) noexcept
      : directory_(std::exchange(other.directory_, -1)), file_(std::exchange(other.file_, -1)) {}
  OpeningLock& operator=(OpeningLock&& other) noexcept {
    std::swap(directory_, other.directory_);
    std::swap(file_, other.file_);
    return *this;
  }
  OpeningLock(const OpeningLock&) = delete;
  OpeningLock& operator=(const OpeningLock&) = delete;
  ~OpeningLock() { release(); }

  struct Holder {
    pid_t pid = 0;  // 0: unknown
  };
  /// kTimedOut when one and the same `holder` has kept it for all of `patience`; while the holders
  /// change, the wait goes on. kAccessDenied when the process has no RuntimeDirectory.
  [[nodiscard]] static Expected<OpeningLock> take(Duration patience, Holder& holder) noexcept;
  void release() noexcept;

 private:
  int directory_ = -1;
  int file_ = -1;  // the lock file in the directory
};

}  // namespace verbatim::host
