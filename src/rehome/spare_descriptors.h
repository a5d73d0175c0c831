// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include <array>

#include "rehome/arena.h"
#include "rehome/system_call.h"

namespace verbatim::rehome {

/// Descriptors that are kept for the start of the monitor, which comes with the first registration:
/// the program may have none left by then. They are duplicates of that of the arena, so that one
/// whose number the program has closed and used again is recognised.
///
/// Its owner serialises the calls.
class SpareDescriptors {
 public:
  /// Takes as many as the system gives, when the arena is open.
  void take(const Arena& arena) noexcept {
    for (int& spare : spares_) {
      if (spare >= 0) continue;
      constexpr int kBehindStandardError = 3;
      long copy = -EBADF;
      for (const int from : {kernel::kKeptFrom, kBehindStandardError}) {  // the limit may be lower
        if (copy < 0) copy = kernel::call(SYS_fcntl, arena.descriptor(), F_DUPFD_CLOEXEC, from);
      }
      spare = copy < 0 ? -1 : static_cast<int>(copy);
    }
  }
  /// Closes them. False when there were none.
  bool give_up(const Arena& arena) noexcept {
    bool has_any = false;
    for (int& spare : spares_) {
      if (arena.is_file_of(spare)) has_any |= kernel::call(SYS_close, spare) == 0;
      spare = -1;
    }
    return has_any;
  }

 private:
  // Two userfaultfds, the list of the mappings, and one for a moment.
  std::array<int, 4> spares_{-1, -1, -1, -1};
};

}  // namespace verbatim::rehome
