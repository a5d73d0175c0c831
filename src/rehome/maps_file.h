// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

namespace verbatim::rehome {

/// /proc/self/maps, opened once and kept open. When the mappings are read later, the process may
/// have no descriptor left, another root directory, or no main thread. The program may close the
/// descriptor and open another file with its number, so each use checks that it is still this file.
///
/// One per process. open() and forget_in_child() come before and after all other calls.
class MapsFile {
 public:
  static MapsFile& of_process() noexcept;

  /// Does nothing when it is open already. Without it, the file is opened each time that mappings
  /// are read.
  void open() noexcept;
  /// In a forked child, where the file still shows the parent's memory.
  void forget_in_child() noexcept;

  /// -1 when it is not open, no longer this file, or opened by the parent of this process.
  [[nodiscard]] int descriptor() const noexcept;
  /// For a thread with a descriptor table of its own, which keeps this number. -1 when it is not
  /// open.
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_ = -1;
  pid_t process_ = 0;  // whose memory it shows
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace verbatim::rehome
