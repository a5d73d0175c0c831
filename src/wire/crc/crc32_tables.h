// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim::wire {

/// The arithmetic behind CRC-32. A register holds a polynomial over GF(2) modulo the generator P,
/// bit 31 being the coefficient of x^0 and bit 0 that of x^31; one octet of zeroes multiplies it by
/// x^8. Everything here is computed by the compiler.
namespace crc32_field {

inline constexpr std::uint32_t kGenerator = 0xedb8'8320;  // 0x04C11DB7 with its bits reversed
inline constexpr std::uint32_t kOne = 0x8000'0000;        // x^0
inline constexpr std::uint32_t kX8 = 0x0080'0000;         // x^8, one octet

[[nodiscard]] constexpr std::uint32_t times_x(std::uint32_t a) noexcept {
  return (a >> 1) ^ ((a & 1) != 0 ? kGenerator : 0);
}

/// P has a constant term, so that x can be divided out again.
[[nodiscard]] constexpr std::uint32_t divided_by_x(std::uint32_t a) noexcept {
  return (a & kOne) != 0 ? ((a ^ kGenerator) << 1) | 1 : a << 1;
}

[[nodiscard]] constexpr std::uint32_t product(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t sum = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1, b = times_x(b)) {
    if ((a & bit) != 0) sum ^= b;
  }
  return sum;
}

/// The product before reduction: 63 bits, no carries.
[[nodiscard]] constexpr std::uint64_t wide_product(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint64_t sum = 0;
  for (unsigned bit = 0; bit < 32; ++bit) {
    sum ^= (std::uint64_t{a} << bit) & (0 - std::uint64_t{(b >> bit) & 1});
  }
  return sum;
}

/// x to the power of `exponent`, which may be negative; takes |exponent| steps.
[[nodiscard]] constexpr std::uint32_t power_of_x(int exponent) noexcept {
  std::uint32_t a = kOne;
  for (; exponent > 0; --exponent) a = times_x(a);
  for (; exponent < 0; ++exponent) a = divided_by_x(a);
  return a;
}

}  // namespace crc32_field

/// kCrc32Slices[i][v]: the register after an octet of value v and i octets of zeroes. Sixteen
/// octets are handled in one step, each with a slice of its own.
inline constexpr auto kCrc32Slices = [] {
  std::array<std::array<std::uint32_t, 256>, 16> slices{};
  for (std::uint32_t value = 0; value < 256; ++value) {
    std::uint32_t state = value;
    for (auto& slice : slices) {
      for (int bit = 0; bit < 8; ++bit) state = crc32_field::times_x(state);
      slice[value] = state;
    }
  }
  return slices;
}();

/// The factors that move 16 octets of a message forward (towards its end) by `distance` times 16
/// octets: with the octets as two little-endian words, moved = early * K.early + late * K.late,
/// carry-less and 128 bits wide, is congruent to them modulo P.
///
/// The factors are x^(128 distance + 63) and x^(128 distance - 1): 64 apart as the two words are,
/// and one less than their distance because the carry-less product of two bit-reversed words comes
/// out one bit too low. They fill the upper half of their words, as powers below 32 do.
struct Crc32Fold {
  std::uint64_t early = 0;
  std::uint64_t late = 0;
};

/// The folds over 0 to kCount - 1 times 16 octets.
template <std::size_t kCount>
[[nodiscard]] consteval std::array<Crc32Fold, kCount> crc32_folds() noexcept {
  std::array<Crc32Fold, kCount> folds{};
  const std::uint32_t x64 = crc32_field::power_of_x(64);
  std::uint32_t power = crc32_field::power_of_x(-1);
  for (auto& fold : folds) {
    fold.late = std::uint64_t{power} << 32;
    power = crc32_field::product(power, x64);
    fold.early = std::uint64_t{power} << 32;
    power = crc32_field::product(power, x64);
  }
  return folds;
}

}  // namespace verbatim::wire
