// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace verbatim::host {

/// Whether a thread whose polls are in vain sleeps until it is woken, or only yields. In a crowd it
/// sleeps, unless its last sleeps ended because the time had passed: then the program waits for
/// something that does not wake it.
///
/// Thread: with the lock of the queue held.
class RestChoice {
 public:
  /// How long a thread sleeps that is not woken.
  static constexpr Duration kLimit = std::chrono::microseconds(500);

  [[nodiscard]] bool is_rest(bool is_crowded) noexcept {
    if (!is_crowded) return false;
    if (yields_before_rest_ == 0) return true;
    --yields_before_rest_;
    return false;
  }
  /// A sleep has ended because the thread was woken, or because the time had passed.
  void note_rest(bool was_woken) noexcept {
    vain_rests_ = was_woken ? 0 : vain_rests_ + 1;
    if (vain_rests_ < kVainRests) return;
    yields_before_rest_ = 1U << std::min(vain_rests_ - kVainRests, kDoublings);
  }

 private:
  static constexpr std::uint32_t kVainRests = 3;  // in a row: more than a busy peer may cause
  static constexpr std::uint32_t kDoublings = 6;

  std::uint32_t vain_rests_ = 0;  // in a row
  std::uint32_t yields_before_rest_ = 0;
};

}  // namespace verbatim::host
