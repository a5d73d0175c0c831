// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "rehome/range.h"
#include "rehome/why.h"

namespace verbatim::rehome {

/// Runs a function on another thread, while the calling thread waits inside clone(2), as in
/// vfork(2).
///
/// To block signals is not enough: whenever a system call of a thread returns, the kernel completes
/// requests of io_uring on it, and stores to the program's memory. In clone(2) a thread waits where
/// only the end of the function, or SIGKILL, wakes it.
///
/// The caller serialises the calls and has blocked all signals.
class VforkRunner {
 public:
  VforkRunner() noexcept = default;
  VforkRunner(const VforkRunner&) = delete;
  VforkRunner& operator=(const VforkRunner&) = delete;
  ~VforkRunner() { close(); }

  /// Reserves the stack for the functions; it is in no region.
  [[nodiscard]] Moved open() noexcept;
  void close() noexcept;
  /// In a forked child, which has not inherited the stack.
  void forget_in_child() noexcept { stack_ = {}; }

  /// The function must use no lock and allocate nothing. False when the system does not start a
  /// thread.
  [[nodiscard]] bool run(void (*function)(void* context), void* context) const noexcept;

 private:
  Range stack_{};
};

}  // namespace verbatim::rehome
