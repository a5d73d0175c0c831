// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

namespace verbatim::rehome {

/// /proc/self/maps, opened once and kept: a process may have no descriptor left, another root
/// directory, or no main thread when its mappings are looked for. The program may close the
/// descriptor and open another file under its number, so the file's identity is checked at each
/// use.
///
/// One per process. open() and forget_in_child() come before and after all other calls.
class MapsFile {
 public:
  static MapsFile& of_process() noexcept;

  /// Harmless when it is open already. Without it, mappings are looked for in a file that is opened
  /// each time.
  void open() noexcept;
  /// In a forked child: it shows the parent's memory.
  void forget_in_child() noexcept;

  /// -1 when it is not open, not this file any longer, or of the process that forked this one.
  [[nodiscard]] int descriptor() const noexcept;
  /// To be kept by a thread that has descriptors of its own. -1 when it is not open.
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_ = -1;
  pid_t process_ = 0;  // whose memory it shows
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace verbatim::rehome
