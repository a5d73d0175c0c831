// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// The implementation of careful_copy(), in assembly.
extern "C" std::uint32_t vb_careful_copy(std::byte* to, const std::byte* from,
                                         std::size_t octets) noexcept;

namespace verbatim {

/// Copies octets from or to memory that the program may have unmapped. Returns false when a page is
/// missing; then any part of the octets has been copied. Needs no preparation before each copy, but
/// a handler of SIGSEGV and SIGBUS that calls resume_careful_copy().
///
/// The last octets become visible last: a thread that polls them then finds all others. Up to eight
/// octets at an address that is a multiple of their number are loaded by one instruction and stored
/// by one.
[[nodiscard]] inline bool careful_copy(std::byte* to, const std::byte* from,
                                       std::size_t octets) noexcept {
  return vb_careful_copy(to, from, octets) != 0;
}

/// For the handler of a fault: if the fault interrupted a careful_copy(), that copy returns false
/// when the handler returns. `context` is the handler's third argument.
[[nodiscard]] bool resume_careful_copy(void* context) noexcept;

}  // namespace verbatim
