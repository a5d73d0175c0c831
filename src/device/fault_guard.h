// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csetjmp>
#include <cstdint>

/// A program may unmap memory that is still registered. Hardware has pinned the pages and does not
/// notice. This library copies with the CPU and would crash. So work on a program's memory runs
/// inside guarded(): a fault there ends the work, not the process.
namespace verbatim::device {

/// Installs the handler that catches faults inside guarded(). It passes every other fault on to the
/// handler that was installed before. Idempotent; called when the first device is opened. A program
/// that installs a handler of its own afterwards loses the protection.
void install_fault_guard() noexcept;

/// A fault whose signal the thread blocks ends the process, whatever handlers there are; and
/// threads that do a library's work often block all signals. So before work on a program's memory
/// SIGSEGV and SIGBUS are unblocked in the calling thread, and stay so (docs/decisions/0023). The
/// other signals stay as they are. That takes one system call, called a look here, except in the
/// library's own threads, which never block the two.
///
/// A look costs more than a posting, so not every call looks: the first of a thread does, and some
/// later ones. A thread that blocks the signals once is looked at by each of the next 16 calls, and
/// if it blocks them again, by every call from then on: programs have critical sections without
/// signals. A thread that first blocks the signals between two looks is protected from the next one
/// on.
namespace detail {
struct FaultSignals {
  std::uint32_t postings_until_look = 0;
  std::uint32_t bursts_until_look = 0;
  std::uint32_t close_looks = 0;  // calls that look although their turn has not come
  bool were_blocked = false;
  bool are_blocked_time_and_again = false;
};
extern constinit thread_local FaultSignals fault_signals;

/// Looks. Returns how many calls may pass until the next look, this one included: at most `usual`.
[[nodiscard]] std::uint32_t look_at_fault_signals(std::uint32_t usual) noexcept;

inline constexpr std::uint32_t kPostingsPerLook = 256;
inline constexpr std::uint32_t kBurstsPerLook = 64;
}  // namespace detail

/// Before a posting.
inline void let_faults_through_for_posting() noexcept {
  std::uint32_t& until_look = detail::fault_signals.postings_until_look;
  if (until_look == 0) [[unlikely]] {
    until_look = detail::look_at_fault_signals(detail::kPostingsPerLook);
  }
  --until_look;
}

/// Before work on a burst of packets.
inline void let_faults_through_for_burst() noexcept {
  std::uint32_t& until_look = detail::fault_signals.bursts_until_look;
  if (until_look == 0) [[unlikely]] {
    until_look = detail::look_at_fault_signals(detail::kBurstsPerLook);
  }
  --until_look;
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
/// there. `*fault_at` is then the address.
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
