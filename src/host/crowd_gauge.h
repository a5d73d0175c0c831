// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/time.h"
#include "host/run_delay.h"

namespace verbatim::host {

/// Whether a thread that polls gets much less of a processor than it could use, because many others
/// want one: whether it has waited long for a processor. The system's account says how long. Where
/// there is none, the time that its yields take is the measure, which is less. Time in which the
/// thread sleeps, by its own choice, does not count.
///
/// Thread: the one that polls. If several threads use one gauge in turn, their accounts tell
/// nothing.
class CrowdGauge {
 public:
  /// What run_delay() does.
  using Account = std::optional<Duration> (*)() noexcept;
  explicit CrowdGauge(Account account = run_delay) noexcept : account_(account) {}

  /// The thread has yielded, and has its processor back after this time.
  void note_yield(Duration took) noexcept { in_yields_ += took; }
  /// To be called often by the thread while it waits for something. It reads the account after some
  /// milliseconds at the earliest.
  [[nodiscard]] bool is_crowded(Instant at) noexcept;

 private:
  void begin_window(Instant at, std::optional<Duration> waited) noexcept;

  Account account_;
  Instant window_{};      // when the present measurement began
  Duration in_yields_{};  // since then
  Duration waited_before_{};
  Instant crowded_until_{};
  Duration holds_{};  // the crowd that was found last; 0: the last measurement has found none
};

}  // namespace verbatim::host
