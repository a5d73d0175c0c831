// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/pointer.h"

namespace verbatim::memory {

/// Whether an 8-octet operation is possible at this place in memory. Check this besides the address
/// in the packet: a zero-based region or window, or one whose keys name its first octet by another
/// address, may begin anywhere, so the two may be aligned differently.
[[nodiscard]] inline bool is_aligned_for_atomics(const std::byte* at) noexcept {
  return numeric_address(at) % sizeof(std::uint64_t) == 0;
}

/// The 8-octet operations that a peer asks for (IBA Vol 1, 9.4.5), as atomic instructions of this
/// CPU: they are atomic also against other queue pairs, other processes and the program's own
/// atomics on the same address. Operands are in host order in memory. All three need a place for
/// which is_aligned_for_atomics() holds.
[[nodiscard]] inline std::uint64_t fetch_add(std::byte* at, std::uint64_t addend) noexcept {
  return std::atomic_ref(*pointer_as<std::uint64_t>(at)).fetch_add(addend);
}

/// Returns the value before; the swap took place if it equals `compare`.
[[nodiscard]] inline std::uint64_t compare_swap(std::byte* at, std::uint64_t compare,
                                                std::uint64_t swap) noexcept {
  std::atomic_ref(*pointer_as<std::uint64_t>(at)).compare_exchange_strong(compare, swap);
  return compare;
}

inline void store_eight(std::byte* at, std::uint64_t value) noexcept {
  std::atomic_ref(*pointer_as<std::uint64_t>(at)).store(value);
}

}  // namespace verbatim::memory
