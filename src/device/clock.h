// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "base/time.h"

namespace verbatim::device {

/// The one clock of the process; the layers below are only ever told the time.
[[nodiscard]] inline Instant now() noexcept {
  return Instant::at(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

}  // namespace verbatim::device
