// SPDX-License-Identifier: Apache-2.0
#include "host/huge_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "base/pointer.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

namespace verbatim::host {

/// Maps more than needed and unmaps the parts before and after the aligned range.
std::byte* map_aligned(std::size_t octets, int flags, int descriptor, int protection) noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t whole = (octets + page - 1) / page * page;
  const std::size_t room = whole + kHugePageOctets;
  void* const reserved =
      ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(reserved);
  const std::size_t before = -numeric_address(begin) & (kHugePageOctets - 1);
  std::byte* const at = begin + before;
  const void* const mapped =
      ::mmap(at, octets, protection, flags | MAP_FIXED | MAP_NORESERVE, descriptor, 0);
  if (mapped == MAP_FAILED) {
    ::munmap(begin, room);
    return nullptr;
  }
  if (before > 0) ::munmap(begin, before);
  ::munmap(at + whole, kHugePageOctets - before);
  return at;
}

bool gather_pages(std::byte* at) noexcept {
  return ::madvise(at, kHugePageOctets, MADV_COLLAPSE) == 0;
}

}  // namespace verbatim::host
