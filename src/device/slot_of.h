// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "host/slot.h"
#include "wire/headers/ids.h"

namespace verbatim::device {

/// The slot of the process that gave a queue pair its number.
[[nodiscard]] constexpr std::uint32_t slot_of(wire::QpNumber number) noexcept {
  return static_cast<std::uint32_t>(number) / host::kNumbersPerSlot;
}

}  // namespace verbatim::device
