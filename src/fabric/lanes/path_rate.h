// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace verbatim::fabric {

/// The rate of a path as address vectors and path records have it, 2 to 24 (IBA Vol 1, 15.2.5.16),
/// in megabits of data in a second. 0: the path has none, or the number means nothing.
[[nodiscard]] constexpr std::uint32_t data_megabits_of_path(std::uint8_t rate) noexcept {
  constexpr std::uint32_t kMegabits[] = {
      0,       0,      2'000,  8'000,   24'000,  4'000,   16'000,   32'000,  48'000,
      64'000,  96'000, 13'636, 54'545,  109'090, 163'636, 25'000,   100'000, 200'000,
      300'000, 27'272, 50'000, 400'000, 600'000, 800'000, 1'200'000};
  return rate < sizeof kMegabits / sizeof kMegabits[0] ? kMegabits[rate] : 0;
}

}  // namespace verbatim::fabric
