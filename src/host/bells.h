// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/pointer.h"

namespace verbatim::host {

/// A bit per queue pair of a process. A peer raises it after something that only the owner can
/// finish: a failure to report, an event to announce, a sender that waits for a change. Then the
/// peer wakes the owner.
///
/// A view of plain data in the owner's segment. Any process may raise a bell, the owner takes them.
class Bells {
 public:
  static constexpr std::uint32_t kCount = 1U << 16;
  static constexpr std::size_t kOctets = kCount / 8 + kCount / 512;

  Bells() noexcept = default;
  explicit Bells(std::byte* block) noexcept : block_(block) {}

  void raise(std::uint32_t index) noexcept {
    index %= kCount;
    // The summary bit comes last: if the owner finds it, it finds the bell.
    word(index / 64).fetch_or(std::uint64_t{1} << index % 64, std::memory_order_release);
    summary(index / 4096).fetch_or(std::uint64_t{1} << index / 64 % 64, std::memory_order_release);
  }

  /// Lowers every bell, and calls `visit(index)` for each that was raised.
  template <typename Visit>
  void take(Visit&& visit) noexcept {
    for (std::uint32_t s = 0; s < kCount / 4096; ++s) {
      if (summary(s).load(std::memory_order_relaxed) == 0) continue;
      std::uint64_t words =
          summary(s).exchange(0, std::memory_order_acquire);  // pairs with raise()
      for (; words != 0; words &= words - 1) {
        const auto w = s * 64 + static_cast<std::uint32_t>(std::countr_zero(words));
        std::uint64_t bits = word(w).exchange(0, std::memory_order_acquire);  // pairs with raise()
        for (; bits != 0; bits &= bits - 1) {
          visit(w * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
        }
      }
    }
  }

 private:
  [[nodiscard]] std::atomic_ref<std::uint64_t> word(std::uint32_t index) const noexcept {
    return std::atomic_ref(*pointer_as<std::uint64_t>(block_ + std::size_t{index} * 8));
  }
  [[nodiscard]] std::atomic_ref<std::uint64_t> summary(std::uint32_t index) const noexcept {
    return word(kCount / 64 + index);
  }

  std::byte* block_ = nullptr;
};

}  // namespace verbatim::host
