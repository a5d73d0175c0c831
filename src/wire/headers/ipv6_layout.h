// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/byte_order.h"
#include "base/expected.h"
#include "wire/headers/ids.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// The layout that an IPv6 header and a global route header have in common:
///
///     0..3 version:4 traffic class:8 flow label:20 | 4..5 payload length | 6 next header
///     7 hop limit | 8..23 source | 24..39 destination
namespace ipv6_layout {
inline constexpr std::size_t kSize = 40;
inline constexpr std::uint32_t kFlowLabelMask = 0x000f'ffff;

/// `Header` is Ipv6 or Grh.
template <typename Header>
void emit(const Header& header, std::span<std::byte, kSize> to) noexcept {
  store_be<std::uint32_t, 0>(to, 0x6000'0000U | (std::uint32_t{header.traffic_class} << 20) |
                                     (header.flow_label & kFlowLabelMask));
  store_be<std::uint16_t, 4>(to, header.payload_octets);
  store_be<std::uint8_t, 6>(to, static_cast<std::uint8_t>(header.next_header));
  store_be<std::uint8_t, 7>(to, header.hop_limit);
  std::memcpy(to.data() + 8, header.source.octets.data(), header.source.octets.size());
  std::memcpy(to.data() + 24, header.destination.octets.data(), header.destination.octets.size());
}

/// A header that arrived: parse() has checked its length and version and nothing else.
template <typename Header>
class View {
 public:
  static Expected<View, WireError> parse(std::span<const std::byte> packet) noexcept {
    if (packet.size() < kSize) return WireError::kTruncated;
    const View view(packet.first<kSize>());
    if ((view.first_word() >> 28) != 6) return WireError::kBadVersion;
    return view;
  }

  [[nodiscard]] std::uint8_t traffic_class() const noexcept {
    return static_cast<std::uint8_t>((first_word() >> 20) & 0xff);
  }
  [[nodiscard]] std::uint32_t flow_label() const noexcept { return first_word() & kFlowLabelMask; }
  [[nodiscard]] std::uint16_t payload_octets() const noexcept {
    return load_be<std::uint16_t, 4>(octets_);
  }
  [[nodiscard]] auto next_header() const noexcept {
    return decltype(Header::next_header){load_be<std::uint8_t, 6>(octets_)};
  }
  [[nodiscard]] std::uint8_t hop_limit() const noexcept {
    return load_be<std::uint8_t, 7>(octets_);
  }
  [[nodiscard]] Gid source() const noexcept { return gid_at<8>(); }
  [[nodiscard]] Gid destination() const noexcept { return gid_at<24>(); }

  [[nodiscard]] Header value() const noexcept {
    return {.traffic_class = traffic_class(),
            .flow_label = flow_label(),
            .payload_octets = payload_octets(),
            .next_header = next_header(),
            .hop_limit = hop_limit(),
            .source = source(),
            .destination = destination()};
  }

 private:
  explicit View(std::span<const std::byte, kSize> octets) noexcept : octets_(octets) {}
  [[nodiscard]] std::uint32_t first_word() const noexcept {
    return load_be<std::uint32_t, 0>(octets_);
  }
  template <std::size_t kOffset>
  [[nodiscard]] Gid gid_at() const noexcept {
    Gid gid;
    std::memcpy(gid.octets.data(), octets_.data() + kOffset, gid.octets.size());
    return gid;
  }
  std::span<const std::byte, kSize> octets_;
};
}  // namespace ipv6_layout

}  // namespace verbatim::wire
