// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbatim::wire {

/// The CRC register before the first octet (IBA Vol 1, 7.8.1).
inline constexpr std::uint32_t kCrc32Preset = 0xffff'ffff;

/// Advances the CRC-32 register (generator 0x04C11DB7, octets LSB first) over `octets`. The
/// register is raw: neither preset nor complemented here, so a computation can be done in pieces.
[[nodiscard]] std::uint32_t crc32_update(std::uint32_t state,
                                         std::span<const std::byte> octets) noexcept;

/// The same over `from`, copying it to `to` in the same pass. The two must not overlap.
[[nodiscard]] std::uint32_t crc32_copy(std::uint32_t state, std::byte* to,
                                       std::span<const std::byte> from) noexcept;

/// The register before `octets` octets of zeroes that becomes `state` after them: a CRC run
/// backwards, for the cost of two multiplications. At most kCrc32MaxZeroes.
[[nodiscard]] std::uint32_t crc32_before_zeroes(std::uint32_t state, std::size_t octets) noexcept;
inline constexpr std::size_t kCrc32MaxZeroes = 0xffff;
/// The opposite: the result of crc32_update() for `state` and so many zeroes, for the same cost.
[[nodiscard]] std::uint32_t crc32_after_zeroes(std::uint32_t state, std::size_t octets) noexcept;

/// The implementation that is used on this CPU, for `make bench` and bug reports.
[[nodiscard]] const char* crc32_implementation() noexcept;

}  // namespace verbatim::wire
