// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace verbatim::memory {

/// The 8-octet operations that a peer asks for (IBA Vol 1, 9.4.5), as atomic instructions of this
/// CPU: they are atomic also against other queue pairs, other processes and the program's own
/// atomics on the same address. Operands are in host order in memory. Addresses are multiples of
/// eight.
[[nodiscard]] inline std::uint64_t fetch_add(std::byte* at, std::uint64_t addend) noexcept {
  return std::atomic_ref(*std::bit_cast<std::uint64_t*>(at)).fetch_add(addend);
}

/// Returns what was there; the swap took place if that equals `compare`.
[[nodiscard]] inline std::uint64_t compare_swap(std::byte* at, std::uint64_t compare,
                                                std::uint64_t swap) noexcept {
  std::atomic_ref(*std::bit_cast<std::uint64_t*>(at)).compare_exchange_strong(compare, swap);
  return compare;
}

inline void store_eight(std::byte* at, std::uint64_t value) noexcept {
  std::atomic_ref(*std::bit_cast<std::uint64_t*>(at)).store(value);
}

}  // namespace verbatim::memory
