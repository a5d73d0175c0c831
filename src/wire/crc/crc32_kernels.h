// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace verbatim::wire {

/// One implementation of the functions in crc32.h. All implementations give the same results. One
/// of them is chosen once, by the features of the CPU. Tests run each of them.
struct Crc32Kernel {
  const char* name = "";
  bool (*runs_here)() noexcept = nullptr;
  std::uint32_t (*update)(std::uint32_t state, const std::byte* from,
                          std::size_t octets) noexcept = nullptr;
  std::uint32_t (*copy)(std::uint32_t state, std::byte* to, const std::byte* from,
                        std::size_t octets) noexcept = nullptr;
  /// The same, after the four octets of `word` in memory order, which are not copied.
  std::uint32_t (*copy_behind)(std::uint32_t state, std::uint32_t word, std::byte* to,
                               const std::byte* from, std::size_t octets) noexcept = nullptr;
  /// a * b * x^33 modulo the generator. A carry-less multiplication and the CRC of its eight octets
  /// give this directly; removing the factor x^33 would need a second multiplication.
  std::uint32_t (*multiply)(std::uint32_t a, std::uint32_t b) noexcept = nullptr;
};

/// The implementation that is used on this CPU. Callers with many packets ask once.
[[nodiscard]] const Crc32Kernel& crc32_kernel() noexcept;

/// Runs on every CPU.
extern const Crc32Kernel kPortableCrc32;

/// Those that need features of the CPU, the fastest first. Empty if there are none for this CPU.
[[nodiscard]] std::span<const Crc32Kernel> native_crc32_kernels() noexcept;

/// Where a kernel reads, and with kCopies also where it writes: the one place in which an update
/// becomes a copy. No octet outside the range is accessed.
template <bool kCopies>
struct Crc32Stream {
  const std::byte* from;
  std::byte* to;  // unused, and maybe null, without kCopies

  template <typename T>
  [[gnu::always_inline]] T take(std::size_t at) const noexcept {
    T value;
    std::memcpy(&value, from + at, sizeof value);
    if constexpr (kCopies) std::memcpy(to + at, &value, sizeof value);
    return value;
  }
};

}  // namespace verbatim::wire
