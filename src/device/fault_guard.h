// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csetjmp>
#include <cstdint>

/// A program may unmap memory that is still registered. Hardware has pinned the pages and does not
/// notice; we copy with the CPU and would crash. Work on a program's memory therefore runs inside
/// guarded(): a fault there ends the work, not the process.
namespace verbatim::device {

/// Lets faults inside guarded() be caught. The handler passes every other fault on to whoever had
/// it before. Idempotent; called when the first device is opened. A program that installs a handler
/// of its own afterwards takes the protection away from itself.
void install_fault_guard() noexcept;

/// A fault whose signal the thread blocks ends the process, whatever handlers there are; and
/// threads that do a library's work often block all signals. So before work on a program's memory
/// SIGSEGV and SIGBUS are unblocked in the calling thread, and stay so (docs/decisions/0023). The
/// other signals are the program's business. One system call, except in the library's own threads,
/// which never block the two.
void let_faults_through() noexcept;

namespace detail {
/// Postings until the thread's signals are looked at again; 0 in a new thread.
extern constinit thread_local std::uint32_t postings_until_look;
inline constexpr std::uint32_t kPostingsPerLook = 256;
}  // namespace detail

/// The same at the first call of a thread and every 256th from then on: for work that is shorter
/// than a system call. A thread that blocks the signals between two looks is protected from the
/// next one on.
inline void let_faults_through_at_times() noexcept {
  if (detail::postings_until_look == 0) [[unlikely]] {
    let_faults_through();
    detail::postings_until_look = detail::kPostingsPerLook;
  }
  --detail::postings_until_look;
}

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
