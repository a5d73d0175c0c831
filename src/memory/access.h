// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace verbatim::memory {

/// Rights of a region, a window or a queue pair (IBA Vol 1, 10.6.3); the values are those of the
/// verbs.
enum class Access : std::uint32_t {
  kNone = 0,
  kLocalWrite = 1U << 0,
  kRemoteWrite = 1U << 1,
  kRemoteRead = 1U << 2,
  kRemoteAtomic = 1U << 3,
  kBindWindow = 1U << 4,
  kZeroBased = 1U << 5,
  kOnDemand = 1U << 6,
  kHugePages = 1U << 7,
  kFlushGlobal = 1U << 8,
  kFlushPersistent = 1U << 9,
  kRelaxedOrdering = 1U << 20,  // a permission; this adapter always keeps the stricter order
};

[[nodiscard]] constexpr Access operator|(Access a, Access b) noexcept {
  return Access(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
[[nodiscard]] constexpr Access operator&(Access a, Access b) noexcept {
  return Access(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}
/// Whether `granted` holds every right in `needed`.
[[nodiscard]] constexpr bool allows(Access granted, Access needed) noexcept {
  return (granted & needed) == needed;
}

/// Remote write and remote atomics need local write (11.2.8.2).
[[nodiscard]] constexpr bool is_consistent(Access access) noexcept {
  const bool remote_changes = (access & (Access::kRemoteWrite | Access::kRemoteAtomic)) != Access{};
  return !remote_changes || allows(access, Access::kLocalWrite);
}

}  // namespace verbatim::memory
