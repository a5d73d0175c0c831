// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace verbatim::tools {

inline constexpr std::uint32_t kSlowdownMax = 1'000'000;

/// What the user has said about the rates of links, as FabricOptions::slowdown has it: `real`,
/// `off`, or `1/N` with N up to kSlowdownMax. Nothing: it is none of these.
[[nodiscard]] std::optional<std::uint32_t> parse_slowdown(std::string_view text) noexcept;

}  // namespace verbatim::tools
