// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "base/time.h"

namespace verbatim::device {

/// The clock of the process. The layers below get the time as an argument.
[[nodiscard]] inline Instant now() noexcept {
  return Instant::at(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

}  // namespace verbatim::device
