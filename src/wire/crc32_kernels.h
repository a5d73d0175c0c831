// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace verbatim::wire {

/// One way to compute what crc32.h promises. All of them give the same results; which is used is
/// decided once, by what the CPU has. Tests run each of them.
struct Crc32Kernel {
  const char* name = "";
  bool (*runs_here)() noexcept = nullptr;
  std::uint32_t (*update)(std::uint32_t state, const std::byte* from,
                          std::size_t octets) noexcept = nullptr;
  std::uint32_t (*copy)(std::uint32_t state, std::byte* to, const std::byte* from,
                        std::size_t octets) noexcept = nullptr;
  /// The same, after the four octets that `word` has in memory, which are not copied.
  std::uint32_t (*copy_behind)(std::uint32_t state, std::uint32_t word, std::byte* to,
                               const std::byte* from, std::size_t octets) noexcept = nullptr;
  /// a * b * x^33 modulo the generator. A carry-less multiplication and the CRC of its eight octets
  /// give just that; to take the x^33 out would be a second multiplication.
  std::uint32_t (*multiply)(std::uint32_t a, std::uint32_t b) noexcept = nullptr;
};

/// The one that this CPU got. For many packets in a row: ask once.
[[nodiscard]] const Crc32Kernel& crc32_kernel() noexcept;

/// Runs on every CPU.
extern const Crc32Kernel kPortableCrc32;

/// Those that need something of the CPU, the fastest first. Empty where we have none.
[[nodiscard]] std::span<const Crc32Kernel> native_crc32_kernels() noexcept;

/// Where a kernel reads, and with kCopies where it writes too: the one place that makes an update
/// into a copy. Nothing outside of what was taken is touched.
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
