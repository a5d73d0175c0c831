// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/time.h"

namespace verbatim::host {

/// Whether a thread that polls gets much less of a processor than it could use, because many others
/// want one. What it needs is the system's account of the thread, which tells time without a
/// processor from time asleep.
///
/// Thread: the one that polls. If several threads use one gauge in turn, it sees no crowd.
class CrowdGauge {
 public:
  /// To be called often by the thread while it waits for something. It reads the account after some
  /// milliseconds at the earliest.
  [[nodiscard]] bool is_crowded(Instant at) noexcept;

 private:
  /// What the system says of the thread.
  struct Account {
    Duration processor{};  // time on a processor
    long sleeps = 0;       // how often it has waited for something in the kernel
  };
  [[nodiscard]] static Account read() noexcept;

  Instant window_{};  // when the present measurement began
  Account before_{};
  Instant crowded_until_{};
};

}  // namespace verbatim::host
