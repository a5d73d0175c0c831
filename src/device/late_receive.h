// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"

namespace verbatim::device {

/// How long a message of an unreliable service that finds no receive waits for its program to post
/// one.
///
/// An adapter made of hardware takes packets one by one, and a program that polls posts receives as
/// fast as they are used. We take them in bursts, on the program's own thread, which cannot post
/// meanwhile, or beside it while it waits for the processor. So what finds no receive waits; who
/// has posted nothing meanwhile is not waited for again before it has. One for each queue pair.
class LateReceive {
 public:
  static constexpr Duration kPatience = std::chrono::milliseconds(10);
  /// When to look again.
  static constexpr Duration kNextLook = std::chrono::microseconds(250);

  /// `posted` is how many receives were ever posted.
  [[nodiscard]] bool is_worth_waiting_for(std::uint32_t posted, Instant now) noexcept {
    if (!has_waited_ || posted != posted_) {
      has_waited_ = true;
      posted_ = posted;
      since_ = now;
    }
    return now - since_ < kPatience;
  }

 private:
  bool has_waited_ = false;
  std::uint32_t posted_ = 0;  // when it was waited for last
  Instant since_{};
};

}  // namespace verbatim::device
