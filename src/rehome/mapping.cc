// SPDX-License-Identifier: Apache-2.0
#include "rehome/mapping.h"

#include <charconv>

namespace verbatim::rehome {

namespace {

/// Takes a number from the front of `text`; nothing if there is none or it does not fit.
template <typename Number>
std::optional<Number> take_number(std::string_view& text, int base) noexcept {
  Number value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (failure != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, char expected) noexcept {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

void skip_blanks(std::string_view& text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
}

bool take_range(std::string_view& text, Mapping& mapping) noexcept {
  const auto begin = take_number<std::uintptr_t>(text, 16);
  if (!begin || !take(text, '-')) return false;
  const auto end = take_number<std::uintptr_t>(text, 16);
  if (!end || !take(text, ' ') || *end <= *begin) return false;
  mapping.range = {.begin = *begin, .end = *end};
  return true;
}

/// "rw-p ": each place has one letter, or a dash.
bool take_permissions(std::string_view& text, Mapping& mapping) noexcept {
  constexpr std::size_t kLetters = 4;
  if (text.size() <= kLetters || text[kLetters] != ' ') return false;
  constexpr std::string_view kFirst = "rwxs";
  constexpr std::string_view kSecond = "---p";
  for (std::size_t i = 0; i < kLetters; ++i) {
    if (text[i] != kFirst[i] && text[i] != kSecond[i]) return false;
  }
  mapping.readable = text[0] == 'r';
  mapping.writable = text[1] == 'w';
  mapping.executable = text[2] == 'x';
  mapping.shared = text[3] == 's';
  text.remove_prefix(kLetters + 1);
  return true;
}

bool take_file(std::string_view& text, Mapping& mapping) noexcept {
  const auto offset = take_number<std::uint64_t>(text, 16);
  if (!offset || !take(text, ' ')) return false;
  const auto major = take_number<std::uint32_t>(text, 16);
  if (!major || !take(text, ':')) return false;
  const auto minor = take_number<std::uint32_t>(text, 16);
  if (!minor || !take(text, ' ')) return false;
  const auto inode = take_number<std::uint64_t>(text, 10);
  if (!inode) return false;
  mapping.offset = *offset;
  mapping.major = *major;
  mapping.minor = *minor;
  mapping.inode = *inode;
  return true;
}

}  // namespace

std::optional<Mapping> parse_mapping(std::string_view line) noexcept {
  Mapping mapping;
  if (!take_range(line, mapping) || !take_permissions(line, mapping) || !take_file(line, mapping)) {
    return std::nullopt;
  }
  if (!line.empty() && line.front() != ' ') return std::nullopt;
  skip_blanks(line);
  mapping.name = line;
  return mapping;
}

}  // namespace verbatim::rehome
