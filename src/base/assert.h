// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace verbatim {

/// Prints which invariant of the library does not hold, and stops the process. No packet and no
/// argument of a caller can lead here: those are errors (see expected.h).
[[noreturn]] void stop_on_broken_invariant(const char* expression, const char* file,
                                           int line) noexcept;

}  // namespace verbatim

/// Checks an invariant of the library. Kept in release builds: wrong data in the memory of a
/// program costs more than the check.
#define VB_ASSERT(expression)                                                \
  do {                                                                       \
    if (!(expression)) [[unlikely]]                                          \
      ::verbatim::stop_on_broken_invariant(#expression, __FILE__, __LINE__); \
  } while (false)
