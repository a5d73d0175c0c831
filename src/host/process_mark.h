// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace verbatim::host {

/// A process, by its number and the time at which it began: a later process with the same number is
/// another one. It needs no descriptor, so it still works after the program has closed all
/// descriptors of the library.
class ProcessMark {
 public:
  /// No process.
  constexpr ProcessMark() noexcept = default;
  /// The process that has this number now. No process when `number` is 0, as it is for processes
  /// outside this PID namespace.
  [[nodiscard]] static ProcessMark of(pid_t number) noexcept;

  [[nodiscard]] bool exists() const noexcept { return number_ != 0; }
  /// Whether all of its threads have ended. A process that waits for its parent to collect it has
  /// ended. Where /proc cannot be read, now or when the mark was made, a process counts as running
  /// as long as its number is in use.
  [[nodiscard]] bool has_ended() const noexcept;

 private:
  pid_t number_ = 0;
  std::uint64_t began_ = 0;  // clock ticks after the start of the system; 0: not known
};

}  // namespace verbatim::host
