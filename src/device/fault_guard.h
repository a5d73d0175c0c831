// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csetjmp>

/// A program may unmap memory that is still registered. Hardware has pinned the pages and does not
/// notice; we copy with the CPU and would crash. Work on a program's memory therefore runs inside
/// guarded(): a fault there ends the work, not the process.
namespace verbatim::device {

/// Lets faults inside guarded() be caught. The handler passes every other fault on to whoever had
/// it before. Idempotent; called when the first device is opened. A program that installs a handler
/// of its own afterwards takes the protection away from itself.
void install_fault_guard() noexcept;

namespace detail {
struct FaultFrame {
  sigjmp_buf back;
  FaultFrame* outer = nullptr;
  void* fault_at = nullptr;
};
extern constinit thread_local FaultFrame* innermost_fault_frame;
}  // namespace detail

/// Runs `work`, which holds no lock and owns nothing; false when it touched memory that is not
/// there. `*fault_at` then says where.
template <typename Work>
[[nodiscard]] __attribute__((noinline)) bool guarded(Work&& work,
                                                     void** fault_at = nullptr) noexcept {
  detail::FaultFrame frame;
  frame.outer = detail::innermost_fault_frame;
  detail::innermost_fault_frame = &frame;
  const bool came_back = sigsetjmp(frame.back, 0) != 0;
  if (!came_back) work();
  detail::innermost_fault_frame = frame.outer;
  if (came_back && fault_at != nullptr) *fault_at = frame.fault_at;
  return !came_back;
}

}  // namespace verbatim::device
