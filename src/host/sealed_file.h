// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>

namespace verbatim::host {

/// How large a memory file is that somebody has handed us; 0 when it may shrink: that would take
/// mapped pages away under our hands.
[[nodiscard]] inline std::uint64_t octets_of_sealed(int descriptor) noexcept {
  struct stat status {};
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(descriptor, &status) != 0) return 0;
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace verbatim::host
