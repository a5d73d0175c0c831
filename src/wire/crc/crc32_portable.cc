// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/crc/crc32_kernels.h"
#include "wire/crc/crc32_slicing.h"
#include "wire/crc/crc32_tables.h"

namespace verbatim::wire {
namespace {

bool runs_everywhere() noexcept { return true; }

std::uint32_t update(std::uint32_t state, const std::byte* from, std::size_t octets) noexcept {
  return crc32_by_slicing(state, Crc32Stream<false>{from, nullptr}, 0, octets);
}

std::uint32_t copy(std::uint32_t state, std::byte* to, const std::byte* from,
                   std::size_t octets) noexcept {
  return crc32_by_slicing(state, Crc32Stream<true>{from, to}, 0, octets);
}

std::uint32_t copy_behind(std::uint32_t state, std::uint32_t word, std::byte* to,
                          const std::byte* from, std::size_t octets) noexcept {
  return copy(crc32_over(state, word), to, from, octets);
}

std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
  return crc32_slice(crc32_field::wide_product(a, b));
}

}  // namespace

constinit const Crc32Kernel kPortableCrc32{.name = "tables, 16 octets a step",
                                           .runs_here = runs_everywhere,
                                           .update = update,
                                           .copy = copy,
                                           .copy_behind = copy_behind,
                                           .multiply = multiply};

#if !defined(__AARCH64EL__) && !defined(__x86_64__)
std::span<const Crc32Kernel> native_crc32_kernels() noexcept { return {}; }
#endif

}  // namespace verbatim::wire
