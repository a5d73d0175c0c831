// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace verbatim::rehome {

/// Addresses of this process, the end not included. They are numbers, because this layer does not
/// access the memory through them.
struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  [[nodiscard]] constexpr bool empty() const noexcept { return begin >= end; }
  [[nodiscard]] constexpr std::size_t octets() const noexcept { return empty() ? 0 : end - begin; }
  [[nodiscard]] constexpr bool contains(std::uintptr_t address) const noexcept {
    return address >= begin && address < end;
  }
  [[nodiscard]] constexpr bool covers(Range other) const noexcept {
    return other.begin >= begin && other.end <= end;
  }
  [[nodiscard]] constexpr bool overlaps(Range other) const noexcept {
    return begin < other.end && other.begin < end;
  }
  friend constexpr bool operator==(Range, Range) noexcept = default;
};

/// The intersection; empty when they have nothing in common.
[[nodiscard]] constexpr Range common(Range a, Range b) noexcept {
  return {.begin = std::max(a.begin, b.begin), .end = std::min(a.end, b.end)};
}

/// The whole pages inside a range.
[[nodiscard]] constexpr Range inner_pages(Range range, std::size_t page) noexcept {
  const std::uintptr_t last = range.end / page * page;
  if (range.begin > ~std::uintptr_t{0} - page) return {};
  return {.begin = (range.begin + page - 1) / page * page, .end = last};
}

/// Every page that a range touches.
[[nodiscard]] constexpr Range outer_pages(Range range, std::size_t page) noexcept {
  if (range.empty() || range.end > ~std::uintptr_t{0} - page) return {};
  return {.begin = range.begin / page * page, .end = (range.end + page - 1) / page * page};
}

}  // namespace verbatim::rehome
