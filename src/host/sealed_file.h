// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cstdint>

namespace verbatim::host {

/// The size of a memory file that another process has sent; 0 when it may shrink, because then
/// mapped pages could disappear. Also 0 for a file of huge pages, where an access to a hole fails
/// when no huge page is left.
[[nodiscard]] inline std::uint64_t octets_of_sealed(int descriptor) noexcept {
  struct stat status {};
  struct statfs system {};
  if (::fstatfs(descriptor, &system) != 0 || system.f_type != TMPFS_MAGIC) return 0;
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(descriptor, &status) != 0) return 0;
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace verbatim::host
