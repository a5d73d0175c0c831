// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace verbatim {

/// Says which promise of our own was broken, and stops the process. Never reached by a packet or by
/// a caller's argument: those are errors (see expected.h).
[[noreturn]] void stop_on_broken_invariant(const char* expression, const char* file,
                                           int line) noexcept;

}  // namespace verbatim

/// An invariant of ours. Kept in release builds: a wrong octet in a stranger's memory costs more.
#define VB_ASSERT(expression)                                                \
  do {                                                                       \
    if (!(expression)) [[unlikely]]                                          \
      ::verbatim::stop_on_broken_invariant(#expression, __FILE__, __LINE__); \
  } while (false)
