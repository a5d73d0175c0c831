// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbatim::fabric {

/// How many lanes a link has: the bits of PortInfo's LinkWidth fields (IBA Vol 1, 14.2.5.6).
enum class LinkWidth : std::uint8_t { k1x = 1, k4x = 2, k8x = 4, k12x = 8, k2x = 16 };

/// The signalling rate of one lane, slowest first.
enum class LinkSpeed : std::uint8_t {
  kSdr,
  kDdr,
  kQdr,
  kFdr10,  // a rate of one vendor; its attributes are that vendor's, too
  kFdr,
  kEdr,
  kHdr,
  kNdr,
  kXdr,
};

/// Width and speed together, as "4xEDR".
struct LinkRate {
  LinkWidth width = LinkWidth::k4x;
  LinkSpeed speed = LinkSpeed::kEdr;
  friend bool operator==(const LinkRate&, const LinkRate&) noexcept = default;
};

[[nodiscard]] std::uint32_t lanes_of(LinkWidth width) noexcept;
/// The rate of the link as programs show it: with the bits that the coding of SDR, DDR and QDR
/// adds.
[[nodiscard]] std::uint32_t megabits_of(const LinkRate& rate) noexcept;
/// The rate at which the link carries octets: without the bits of the coding.
[[nodiscard]] std::uint32_t data_megabits_of(const LinkRate& rate) noexcept;
/// megabits_of() in Gb/s, rounded down.
[[nodiscard]] std::uint32_t gigabits_of(const LinkRate& rate) noexcept;

[[nodiscard]] std::string text_of(const LinkRate& rate);
/// "4xEDR", in letters of either case.
[[nodiscard]] std::optional<LinkRate> parse_link_rate(std::string_view text) noexcept;

}  // namespace verbatim::fabric
