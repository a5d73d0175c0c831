// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace verbatim::wire {

/// Builds one line of text in a caller's buffer. Text that does not fit is truncated without
/// an error, because the line is for people. The line is not terminated with a zero.
class TextLine {
 public:
  explicit constexpr TextLine(std::span<char> to) noexcept : to_(to) {}

  constexpr TextLine& text(std::string_view text) noexcept {
    const std::size_t count = std::min(text.size(), to_.size() - at_);
    std::copy_n(text.data(), count, to_.data() + at_);
    at_ += count;
    return *this;
  }
  constexpr TextLine& decimal(std::uint64_t value) noexcept {
    char digits[20];
    std::size_t at = sizeof digits;
    do {
      digits[--at] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    return text(std::string_view(digits + at, sizeof digits - at));
  }
  /// "0x" and at least `width` digits.
  constexpr TextLine& hex(std::uint64_t value, std::size_t width = 1) noexcept {
    return text("0x").bare_hex(value, width);
  }
  constexpr TextLine& bare_hex(std::uint64_t value, std::size_t width = 1) noexcept {
    char digits[16];
    std::size_t at = sizeof digits;
    do {
      digits[--at] = "0123456789abcdef"[value & 0xf];
      value >>= 4;
    } while (value != 0 || (sizeof digits - at < width && at > 0));
    return text(std::string_view(digits + at, sizeof digits - at));
  }

  [[nodiscard]] constexpr std::string_view view() const noexcept {
    return std::string_view(to_.data(), at_);
  }

 private:
  std::span<char> to_;
  std::size_t at_ = 0;  // characters written
};

}  // namespace verbatim::wire
