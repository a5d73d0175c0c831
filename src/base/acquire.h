// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/fence.h"

#if defined(__aarch64__) && !defined(VB_TSAN)
#define VB_LDAPR 1
#endif

namespace verbatim {

/// Whether this CPU has `ldapr` (Armv8.3), an acquire load that does not wait for earlier release
/// stores of its own thread. False until the library is initialised; load_acquire() is correct
/// either way.
#if defined(VB_LDAPR)
[[gnu::visibility("hidden")]] extern const bool kHasLdapr;
#else
inline constexpr bool kHasLdapr = false;
#endif

/// An acquire load for a caller that has found kHasLdapr true, for example once before a loop.
template <typename T>
[[nodiscard]] inline T load_acquire_with_ldapr(const T& from) noexcept {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
#if defined(VB_LDAPR)
  // clang-format off
  if constexpr (sizeof(T) == 1) {
    std::uint32_t value;
    __asm__ __volatile__(".arch_extension rcpc\n\tldaprb %w0, %1" : "=r"(value) : "Q"(from) : "memory");
    return std::bit_cast<T>(static_cast<std::uint8_t>(value));
  } else if constexpr (sizeof(T) == 2) {
    std::uint32_t value;
    __asm__ __volatile__(".arch_extension rcpc\n\tldaprh %w0, %1" : "=r"(value) : "Q"(from) : "memory");
    return std::bit_cast<T>(static_cast<std::uint16_t>(value));
  } else if constexpr (sizeof(T) == 4) {
    std::uint32_t value;
    __asm__ __volatile__(".arch_extension rcpc\n\tldapr %w0, %1" : "=r"(value) : "Q"(from) : "memory");
    return std::bit_cast<T>(value);
  } else {
    std::uint64_t value;
    __asm__ __volatile__(".arch_extension rcpc\n\tldapr %x0, %1" : "=r"(value) : "Q"(from) : "memory");
    return std::bit_cast<T>(value);
  }
  // clang-format on
#else
  return std::atomic_ref(const_cast<T&>(from)).load(std::memory_order_acquire);
#endif
}

/// An acquire load for the hot path. The compiler translates memory_order_acquire to `ldar`, which
/// also waits until every earlier release store of its thread has reached memory. After a release
/// to a cache line that a peer polls, that wait lasts until the line has been transferred. No
/// algorithm here needs this additional order.
template <typename T>
[[nodiscard]] inline T load_acquire(const T& from) noexcept {
  if (kHasLdapr) [[likely]]
    return load_acquire_with_ldapr(from);
  return std::atomic_ref(const_cast<T&>(from)).load(std::memory_order_acquire);
}

}  // namespace verbatim
