// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "rehome/range.h"
#include "rehome/why.h"

namespace verbatim::rehome {

/// Runs a function on another thread, while the calling one stands still inside of clone(2), as in
/// vfork(2).
///
/// A thread that only blocks its signals does not stand still: the kernel completes requests of
/// io_uring on it whenever a system call returns, and stores to the program's memory then. In
/// clone(2) it waits where nothing but the function's end, or SIGKILL, wakes it.
///
/// The caller serialises the calls and has blocked all signals.
class VforkRunner {
 public:
  VforkRunner() noexcept = default;
  VforkRunner(const VforkRunner&) = delete;
  VforkRunner& operator=(const VforkRunner&) = delete;
  ~VforkRunner() { close(); }

  /// Reserves the stack of the functions, which is in no region.
  [[nodiscard]] Moved open() noexcept;
  void close() noexcept;
  /// In a forked child, which has not inherited the stack.
  void forget_in_child() noexcept { stack_ = {}; }

  /// The function uses no lock and allocates nothing. False when the system does not start a
  /// thread.
  [[nodiscard]] bool run(void (*function)(void* context), void* context) const noexcept;

 private:
  Range stack_{};
};

}  // namespace verbatim::rehome
