// SPDX-License-Identifier: Apache-2.0
#include "fabric/topology/link_rate.h"

#include <array>
#include <cstddef>

namespace verbatim::fabric {
namespace {

struct Speed {
  LinkSpeed speed{};
  std::string_view name;
  std::uint32_t megabits = 0;       // of one lane
  std::uint32_t data_megabits = 0;  // likewise, without the bits of the coding
};
constexpr std::array<Speed, 9> kSpeeds{{
    {LinkSpeed::kSdr, "SDR", 2'500, 2'000},
    {LinkSpeed::kDdr, "DDR", 5'000, 4'000},
    {LinkSpeed::kQdr, "QDR", 10'000, 8'000},
    {LinkSpeed::kFdr10, "FDR10", 10'000, 10'000},
    {LinkSpeed::kFdr, "FDR", 14'000, 13'636},
    {LinkSpeed::kEdr, "EDR", 25'000, 25'000},
    {LinkSpeed::kHdr, "HDR", 50'000, 50'000},
    {LinkSpeed::kNdr, "NDR", 100'000, 100'000},
    {LinkSpeed::kXdr, "XDR", 200'000, 200'000},
}};

struct Width {
  LinkWidth width{};
  std::string_view name;
  std::uint32_t lanes = 0;
};
constexpr std::array<Width, 5> kWidths{{
    {LinkWidth::k1x, "1x", 1},
    {LinkWidth::k2x, "2x", 2},
    {LinkWidth::k4x, "4x", 4},
    {LinkWidth::k8x, "8x", 8},
    {LinkWidth::k12x, "12x", 12},
}};

const Speed& entry_of(LinkSpeed speed) noexcept { return kSpeeds[static_cast<std::size_t>(speed)]; }

const Width& entry_of(LinkWidth width) noexcept {
  std::size_t at = 0;
  while (kWidths[at].width != width) ++at;
  return kWidths[at];
}

constexpr char upper(char letter) noexcept {
  return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
}

bool same_letters(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  for (std::size_t at = 0; at < a.size(); ++at) {
    if (upper(a[at]) != upper(b[at])) return false;
  }
  return true;
}

}  // namespace

std::uint32_t lanes_of(LinkWidth width) noexcept { return entry_of(width).lanes; }

std::uint32_t megabits_of(const LinkRate& rate) noexcept {
  return lanes_of(rate.width) * entry_of(rate.speed).megabits;
}
std::uint32_t data_megabits_of(const LinkRate& rate) noexcept {
  return lanes_of(rate.width) * entry_of(rate.speed).data_megabits;
}
std::uint32_t gigabits_of(const LinkRate& rate) noexcept { return megabits_of(rate) / 1000; }

std::string text_of(const LinkRate& rate) {
  return std::string(entry_of(rate.width).name) + std::string(entry_of(rate.speed).name);
}

std::optional<LinkRate> parse_link_rate(std::string_view text) noexcept {
  for (const Width& width : kWidths) {
    if (!same_letters(text.substr(0, width.name.size()), width.name)) continue;
    const std::string_view rest = text.substr(width.name.size());
    for (const Speed& speed : kSpeeds) {
      if (same_letters(rest, speed.name)) return LinkRate{width.width, speed.speed};
    }
  }
  return std::nullopt;
}

}  // namespace verbatim::fabric
