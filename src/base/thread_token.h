// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace verbatim {

/// Identifies the calling thread among the living threads of its process; never zero. A later
/// thread may have the token of an ended one. The thread of a forked child has the token of the
/// thread that forked.
///
/// The token is the thread pointer: one instruction, whereas a thread_local variable of a library
/// that was loaded with dlopen(3) costs a call.
[[nodiscard]] inline std::uintptr_t thread_token() noexcept {
#if defined(__aarch64__)
  std::uintptr_t token;
  __asm__("mrs %0, tpidr_el0" : "=r"(token));
  return token;
#elif defined(__x86_64__)
  std::uintptr_t token;
  __asm__("movq %%fs:0, %0" : "=r"(token));
  return token;
#else
  alignas(16) static thread_local char mine;
  return reinterpret_cast<std::uintptr_t>(&mine);
#endif
}

}  // namespace verbatim
