// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <malloc.h>

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VERBATIM_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define VERBATIM_IS_SANITIZED 1
#endif
#endif

#ifdef VERBATIM_IS_SANITIZED
// Of <sanitizer/allocator_interface.h>, which Debian's g++ comes without.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace verbatim::testing {

/// A sanitizer keeps what was freed for a while: the pages of its process grow without a leak.
#ifdef VERBATIM_IS_SANITIZED
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// Octets that are allocated and not freed, of all threads, with the libraries' own.
inline std::size_t heap_in_use() {
#ifdef VERBATIM_IS_SANITIZED
  return __sanitizer_get_current_allocated_bytes();
#else
  const struct mallinfo2 found = ::mallinfo2();
  return found.uordblks + found.hblkhd;
#endif
}

}  // namespace verbatim::testing
