// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace verbatim {

using Duration = std::chrono::nanoseconds;

/// A point in time that the owner of a protocol machine passes to it: nanoseconds since a start
/// that only the owner knows. The pure layers compare and add instants and never read a clock.
class Instant {
 public:
  constexpr Instant() noexcept = default;
  static constexpr Instant at(Duration since_start) noexcept {
    Instant instant;
    instant.since_start_ = since_start;
    return instant;
  }
  /// Later than every deadline that a machine can compute.
  static constexpr Instant never() noexcept { return at(Duration::max()); }

  [[nodiscard]] constexpr Duration since_start() const noexcept { return since_start_; }

  friend constexpr Instant operator+(Instant instant, Duration by) noexcept {
    return at(instant.since_start_ + by);
  }
  friend constexpr Duration operator-(Instant later, Instant earlier) noexcept {
    return later.since_start_ - earlier.since_start_;
  }
  friend constexpr auto operator<=>(Instant, Instant) noexcept = default;

 private:
  Duration since_start_{0};
};

}  // namespace verbatim
