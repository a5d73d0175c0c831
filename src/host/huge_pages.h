// SPDX-License-Identifier: Apache-2.0
// Huge pages on a system that has none reserved.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace verbatim::host {

inline constexpr std::size_t kHugePageOctets = std::size_t{2} << 20;

/// Maps octets as mmap(2) does, but at an address that is a multiple of a huge page, as huge pages
/// need it. Null when the system refuses.
[[nodiscard]] std::byte* map_aligned(std::size_t octets, int flags, int descriptor,
                                     int protection = PROT_READ | PROT_WRITE) noexcept;

/// Replaces the small pages at `at`, a multiple of a huge page, by one huge page, including pages
/// that were not there yet. False on a system that cannot do this (MADV_COLLAPSE, Linux 6.1) or has
/// no huge page free: then nothing has changed.
bool gather_pages(std::byte* at) noexcept;

}  // namespace verbatim::host
