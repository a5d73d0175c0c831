// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace verbatim {

/// The places where memory is read as another type than the one it was allocated as, or where an
/// address is a number, all go through these two functions: blocks of a segment hold records of
/// several types, the structures of verbs carry addresses as 64-bit numbers, and the kernel's calls
/// take them so. The caller knows that a T is there and that it is aligned; neither is checked.
template <typename T, typename From>
requires(std::is_pointer_v<From> || (std::is_integral_v<From> && sizeof(From) == sizeof(void*)))
    [[nodiscard, gnu::always_inline]] constexpr T* pointer_as(From from) noexcept {
  return std::bit_cast<T*>(from);
}

/// The address as a number.
template <typename T>
[[nodiscard, gnu::always_inline]] constexpr std::uintptr_t numeric_address(T* pointer) noexcept {
  return std::bit_cast<std::uintptr_t>(pointer);
}

}  // namespace verbatim
