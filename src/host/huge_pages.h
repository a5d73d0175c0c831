// SPDX-License-Identifier: Apache-2.0
// What it takes to have huge pages where nobody has set the system up for them.
#pragma once

#include <cstddef>

namespace verbatim::host {

inline constexpr std::size_t kHugePageOctets = std::size_t{2} << 20;

/// Maps octets that can be read and written as mmap(2) does, but at a multiple of a huge page, for
/// only there can one be. Null when the system refuses.
[[nodiscard]] std::byte* map_aligned(std::size_t octets, int flags, int descriptor) noexcept;

/// Makes one huge page of the small ones at a multiple of it, and of those that are not there yet.
/// False on a system that does not know how (MADV_COLLAPSE, Linux 6.1) or has none: then all is as
/// it was.
bool gather_pages(std::byte* at) noexcept;

}  // namespace verbatim::host
