// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/link_slowdown.h"

#include <charconv>
#include <system_error>

namespace verbatim::tools {

std::optional<std::uint32_t> parse_slowdown(std::string_view text) noexcept {
  if (text == "real") return 1U;
  if (text == "off") return 0U;
  if (!text.starts_with("1/")) return std::nullopt;
  text.remove_prefix(2);
  std::uint32_t slowdown = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, slowdown);
  if (error != std::errc{} || stop != end || slowdown == 0 || slowdown > kSlowdownMax) {
    return std::nullopt;
  }
  return slowdown;
}

}  // namespace verbatim::tools
