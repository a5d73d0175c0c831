// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "wire/headers/guid.h"

namespace verbatim::fabric {

/// 0x and sixteen digits.
[[nodiscard]] inline std::string text_of(wire::Guid guid) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 60; shift >= 0; shift -= 4) {
    text += kDigits[static_cast<std::uint64_t>(guid) >> shift & 15];
  }
  return text;
}

}  // namespace verbatim::fabric
