// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// What careful_copy() does, in assembly.
extern "C" std::uint32_t vb_careful_copy(std::byte* to, const std::byte* from,
                                         std::size_t octets) noexcept;

namespace verbatim {

/// Copies octets of a program's memory, which the program may have unmapped, without anything that
/// has to be prepared for each copy: false when some of it was not there, and then any part has
/// been copied. That is so where a handler of SIGSEGV and SIGBUS calls resume_careful_copy().
///
/// The last octets become visible last: whoever polls them finds all the others. Up to eight octets
/// that lie at a multiple of their number are loaded, and stored, by one instruction.
[[nodiscard]] inline bool careful_copy(std::byte* to, const std::byte* from,
                                       std::size_t octets) noexcept {
  return vb_careful_copy(to, from, octets) != 0;
}

/// For the handler of a fault: if it has interrupted a careful_copy(), that returns false as soon
/// as the handler does. `context` is the handler's third argument.
[[nodiscard]] bool resume_careful_copy(void* context) noexcept;

}  // namespace verbatim
