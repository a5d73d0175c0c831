// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace verbatim::wire {

/// A packet sequence number: 24 bits that wrap (IBA Vol 1, 9.7.2). Numbers that wrap have no "less
/// than", so there is none here: distance_from() gives the distance and the direction.
class Psn {
 public:
  static constexpr std::uint32_t kMask = 0x00ff'ffff;

  constexpr Psn() noexcept = default;
  constexpr explicit Psn(std::uint32_t value) noexcept : value_(value & kMask) {}

  [[nodiscard]] constexpr std::uint32_t raw() const noexcept { return value_; }

  /// How far this is ahead of `base`, from -2^23 to 2^23 - 1; negative when behind.
  [[nodiscard]] constexpr std::int32_t distance_from(Psn base) const noexcept {
    return static_cast<std::int32_t>((value_ - base.value_) << 8) >> 8;
  }
  [[nodiscard]] constexpr bool is_before(Psn other) const noexcept {
    return distance_from(other) < 0;
  }

  friend constexpr Psn operator+(Psn psn, std::uint32_t by) noexcept {
    return Psn(psn.value_ + by);
  }
  friend constexpr Psn operator-(Psn psn, std::uint32_t by) noexcept {
    return Psn(psn.value_ - by);
  }
  friend constexpr bool operator==(Psn, Psn) noexcept = default;

 private:
  std::uint32_t value_ = 0;
};

}  // namespace verbatim::wire
