// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbatim::fabric {

/// Text of a user as a message may show it: short, and without control characters.
[[nodiscard]] inline std::string in_quotes(std::string_view word) {
  constexpr std::size_t kShown = 60;
  std::string text = "'";
  for (const char c : word.substr(0, kShown)) text += c >= ' ' && c <= '~' ? c : '?';
  return text + (word.size() > kShown ? "...'" : "'");
}

/// The digit's value in base 16; 16 when it is none.
[[nodiscard]] constexpr unsigned hexadecimal_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return 16;
}

/// The number that the whole text is, in base 10 or 16; nothing when it is none, or more than
/// `most`.
[[nodiscard]] constexpr std::optional<std::uint64_t> number_of(std::string_view text, unsigned base,
                                                               std::uint64_t most) noexcept {
  if (base == 16 && (text.starts_with("0x") || text.starts_with("0X"))) text.remove_prefix(2);
  if (text.empty()) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    const unsigned digit = hexadecimal_digit(c);
    if (digit >= base || digit > most || value > (most - digit) / base) return std::nullopt;
    value = value * base + digit;
  }
  return value;
}

/// Reads one line from its beginning. Each take_*() skips blanks first; one that does not find what
/// it looks for takes nothing else. Borrows the text.
class LineScanner {
 public:
  explicit constexpr LineScanner(std::string_view line) noexcept : rest_(line) {}

  [[nodiscard]] std::string_view rest() noexcept {
    skip_blanks();
    return rest_;
  }
  [[nodiscard]] bool at_end() noexcept { return rest().empty(); }

  [[nodiscard]] bool take(char wanted) noexcept {
    if (!rest().starts_with(wanted)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  /// What stands between two characters, the first of which comes next: "..." or [...].
  [[nodiscard]] std::optional<std::string_view> take_between(char open, char close) noexcept {
    if (!rest().starts_with(open)) return std::nullopt;
    const std::size_t end = rest_.find(close, 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view inner = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return inner;
  }
  /// Up to the next blank; empty at the end of the line.
  [[nodiscard]] std::string_view take_word() noexcept {
    const std::size_t end = rest().find_first_of(" \t");
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(word.size());
    return word;
  }

 private:
  void skip_blanks() noexcept {
    const std::size_t first = rest_.find_first_not_of(" \t");
    rest_.remove_prefix(first == std::string_view::npos ? rest_.size() : first);
  }
  std::string_view rest_;
};

}  // namespace verbatim::fabric
