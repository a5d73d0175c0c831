// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "wire/crc/crc32_kernels.h"
#include "wire/crc/crc32_tables.h"

namespace verbatim::wire {

/// The register after the eight octets of `word` in little-endian order and `kFollowing` octets of
/// zeroes. A register from before them must be added to the word.
template <std::size_t kFollowing = 0>
[[nodiscard]] inline std::uint32_t crc32_slice(std::uint64_t word) noexcept {
  const auto part = [word](unsigned i) {
    return kCrc32Slices[kFollowing + 7 - i][(word >> (8 * i)) & 0xff];
  };
  return ((part(0) ^ part(1)) ^ (part(2) ^ part(3))) ^ ((part(4) ^ part(5)) ^ (part(6) ^ part(7)));
}

/// Sixteen octets in one step: the register is only needed for the first four of them.
[[nodiscard]] inline std::uint32_t crc32_slice(std::uint64_t first, std::uint64_t second) noexcept {
  return crc32_slice<8>(first) ^ crc32_slice(second);
}

/// The register after the four octets that `word` has in memory.
[[nodiscard]] inline std::uint32_t crc32_over(std::uint32_t state, std::uint32_t word) noexcept {
  if (std::endian::native == std::endian::big) word = __builtin_bswap32(word);
  return crc32_slice(std::uint64_t{state ^ word} << 32);
}

/// By table, 16 octets a step; for any CPU, and for inputs that are too short for other methods.
template <bool kCopies>
[[nodiscard]] std::uint32_t crc32_by_slicing(std::uint32_t state, Crc32Stream<kCopies> stream,
                                             std::size_t at, std::size_t end) noexcept {
  const auto word = [&] {
    const auto value = stream.template take<std::uint64_t>(at);
    at += sizeof value;
    return std::endian::native == std::endian::big ? __builtin_bswap64(value) : value;
  };
  while (end - at >= 16) {
    const std::uint64_t first = word() ^ state;
    state = crc32_slice(first, word());
  }
  if (end - at >= 8) state = crc32_slice(word() ^ state);
  for (; at != end; ++at) {
    const auto octet = stream.template take<std::uint8_t>(at);
    state = (state >> 8) ^ kCrc32Slices[0][(state ^ octet) & 0xff];
  }
  return state;
}

}  // namespace verbatim::wire
