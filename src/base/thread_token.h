// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace verbatim {

/// Names the calling thread among the living threads of its process; never zero. A later thread may
/// be given the token of one that has ended, and a forked child keeps that of the thread that
/// forked.
///
/// It is the thread pointer itself: one instruction, where a thread_local of a library that was
/// loaded late costs a call.
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
