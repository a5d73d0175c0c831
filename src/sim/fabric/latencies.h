// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace verbatim::sim {

/// Counts times, exact to 1 part in 64, so that its memory does not grow with their number.
class Latencies {
 public:
  void add(Duration time) noexcept {
    const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(0, time.count()));
    ++counts_[index_of(value)];
    ++count_;
  }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// A time that so many of a thousand do not exceed; zero where none were counted.
  [[nodiscard]] Duration per_mille(std::uint64_t share) const noexcept {
    const std::uint64_t wanted = std::max<std::uint64_t>(1, (count_ * share + 999) / 1000);
    std::uint64_t passed = 0;
    for (std::size_t at = 0; at < counts_.size(); ++at) {
      passed += counts_[at];
      if (passed >= wanted) return Duration(static_cast<std::int64_t>(largest_of(at)));
    }
    return Duration{0};
  }

 private:
  static constexpr unsigned kBits = 6;  // of a value that are kept behind its first one
  static constexpr std::size_t kSteps = std::size_t{1} << kBits;

  [[nodiscard]] static std::size_t index_of(std::uint64_t value) noexcept {
    if (value < kSteps) return static_cast<std::size_t>(value);
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kBits;
    return kSteps * (shift + std::size_t{1}) + (static_cast<std::size_t>(value >> shift) - kSteps);
  }
  [[nodiscard]] static std::uint64_t largest_of(std::size_t index) noexcept {
    if (index < kSteps) return index;
    const std::size_t shift = index / kSteps - 1;
    return ((kSteps + index % kSteps + 1) << shift) - 1;
  }

  std::array<std::uint64_t, kSteps*(64 - kBits + 1)> counts_{};
  std::uint64_t count_ = 0;
};

}  // namespace verbatim::sim
