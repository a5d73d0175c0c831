// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace verbatim {

namespace detail {
template <typename T>
[[nodiscard]] constexpr T swapped(T value) noexcept {
  if constexpr (sizeof(T) == 1) return value;
  if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(value));
  if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(value));
  if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(value));
}
}  // namespace detail

/// Host order to network order and back; the two are one operation.
template <typename T>
requires std::is_unsigned_v<T>
[[nodiscard]] constexpr T big_endian(T value) noexcept {
  if constexpr (std::endian::native == std::endian::big) return value;
  return detail::swapped(value);
}

/// Reads a big-endian number at a fixed offset; the compiler proves the bound.
template <typename T, std::size_t kOffset, std::size_t kExtent>
requires(kExtent != std::dynamic_extent && kOffset + sizeof(T) <= kExtent) [[nodiscard]] T
    load_be(std::span<const std::byte, kExtent> from) noexcept {
  T value;
  std::memcpy(&value, from.data() + kOffset, sizeof value);
  return big_endian(value);
}

/// Writes a big-endian number at a fixed offset; the compiler proves the bound.
template <typename T, std::size_t kOffset, std::size_t kExtent>
requires(kExtent != std::dynamic_extent &&
         kOffset + sizeof(T) <= kExtent) void store_be(std::span<std::byte, kExtent> to,
                                                       T value) noexcept {
  value = big_endian(value);
  std::memcpy(to.data() + kOffset, &value, sizeof value);
}

/// Reads a big-endian number from `from`, which must hold at least sizeof(T) octets.
template <typename T>
[[nodiscard]] T load_be_at(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return big_endian(value);
}

/// Writes a big-endian number to `to`, which must have room for sizeof(T) octets.
template <typename T>
void store_be_at(std::byte* to, T value) noexcept {
  value = big_endian(value);
  std::memcpy(to, &value, sizeof value);
}

}  // namespace verbatim
