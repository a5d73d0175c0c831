// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "rehome/system_call.h"

namespace verbatim::rehome {

/// Lets the parent of a forked child wait while the child copies memory: a pipe whose writing end
/// the child closes when it is done. When the process has no descriptors for the pipe, the parent
/// does not wait.
class CopyingChild {
 public:
  void prepare() noexcept {
    if (::pipe2(ends_, O_CLOEXEC) != 0) ends_[0] = ends_[1] = -1;
  }
  void wait_in_parent() noexcept {
    if (ends_[0] < 0) return;
    (void)kernel::call(SYS_close, ends_[1]);
    char none = 0;
    while (kernel::call(SYS_read, ends_[0], &none, sizeof none) == -EINTR) {
    }
    (void)kernel::call(SYS_close, ends_[0]);
    ends_[0] = ends_[1] = -1;
  }
  void finish_in_child() noexcept {
    if (ends_[0] < 0) return;
    (void)kernel::call(SYS_close, ends_[0]);
    (void)kernel::call(SYS_close, ends_[1]);
    ends_[0] = ends_[1] = -1;
  }

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace verbatim::rehome
