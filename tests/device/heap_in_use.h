// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <malloc.h>

#include <cstddef>

#if VB_ADDRESS_SANITIZER || VB_THREAD_SANITIZER
// Of <sanitizer/allocator_interface.h>, which Debian's g++ comes without.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace verbatim::testing {

/// A sanitizer keeps what was freed for a while: the pages of its process grow without a leak.
inline constexpr bool kIsSanitized = VB_ADDRESS_SANITIZER || VB_THREAD_SANITIZER;

/// Octets that are allocated and not freed, of all threads, with the libraries' own.
inline std::size_t heap_in_use() {
#if VB_ADDRESS_SANITIZER || VB_THREAD_SANITIZER
  return __sanitizer_get_current_allocated_bytes();
#else
  const struct mallinfo2 found = ::mallinfo2();
  return found.uordblks + found.hblkhd;
#endif
}

}  // namespace verbatim::testing
