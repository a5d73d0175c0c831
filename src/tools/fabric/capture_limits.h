// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"

namespace verbatim::tools {

/// When a capture ends by itself.
struct CaptureLimits {
  std::uint64_t packets = 0;  // after so many; 0: never
  Duration time{0};           // after such a time; 0: never
};

}  // namespace verbatim::tools
