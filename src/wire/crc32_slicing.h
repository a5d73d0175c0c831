// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "wire/crc32_kernels.h"
#include "wire/crc32_tables.h"

namespace verbatim::wire {

/// The register, zero before, after the eight octets that `word` holds in little-endian order. A
/// register that is not zero is added to the word beforehand.
[[nodiscard]] inline std::uint32_t crc32_slice(std::uint64_t word) noexcept {
  std::uint32_t state = 0;
  for (std::size_t i = 0; i < 8; ++i) state ^= kCrc32Slices[7 - i][(word >> (8 * i)) & 0xff];
  return state;
}

/// Eight octets a step, by table; for any CPU, and for what is too short for anything else.
template <bool kCopies>
[[nodiscard]] std::uint32_t crc32_by_slicing(std::uint32_t state, Crc32Stream<kCopies> stream,
                                             std::size_t at, std::size_t end) noexcept {
  for (; end - at >= 8; at += 8) {
    auto word = stream.template take<std::uint64_t>(at);
    if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
    state = crc32_slice(word ^ state);
  }
  for (; at != end; ++at) {
    const auto octet = stream.template take<std::uint8_t>(at);
    state = (state >> 8) ^ kCrc32Slices[0][(state ^ octet) & 0xff];
  }
  return state;
}

}  // namespace verbatim::wire
