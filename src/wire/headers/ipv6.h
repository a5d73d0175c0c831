// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/byte_order.h"
#include "base/expected.h"
#include "wire/headers/ids.h"
#include "wire/headers/ipv4.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// IPv6 header (RFC 8200); RoCEv2 allows no extension headers behind it. An address is a GID.
///
///     0..3 Version:4 traffic class:8 flow label:20 | 4..5 payload length | 6 next header
///     7 hop limit | 8..23 source | 24..39 destination
struct Ipv6 {
  static constexpr std::size_t kSize = 40;
  static constexpr std::uint32_t kFlowLabelMask = 0x000f'ffff;
  std::uint8_t traffic_class = 0;    // DSCP in the upper six bits, ECN in the lower two
  std::uint32_t flow_label = 0;      // 20 bits
  std::uint16_t payload_octets = 0;  // all that follows this header
  IpProtocol next_header = IpProtocol::kUdp;
  std::uint8_t hop_limit = 64;
  Gid source{};
  Gid destination{};

  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint32_t, 0>(
        to, 0x6000'0000U | (std::uint32_t{traffic_class} << 20) | (flow_label & kFlowLabelMask));
    store_be<std::uint16_t, 4>(to, payload_octets);
    store_be<std::uint8_t, 6>(to, static_cast<std::uint8_t>(next_header));
    store_be<std::uint8_t, 7>(to, hop_limit);
    std::memcpy(to.data() + 8, source.octets.data(), source.octets.size());
    std::memcpy(to.data() + 24, destination.octets.data(), destination.octets.size());
  }
};

/// An IPv6 header that arrived: parse() has checked its length and version and nothing else.
class Ipv6View {
 public:
  static Expected<Ipv6View, WireError> parse(std::span<const std::byte> datagram) noexcept {
    if (datagram.size() < Ipv6::kSize) return WireError::kTruncated;
    const Ipv6View view(datagram.first<Ipv6::kSize>());
    if ((view.first_word() >> 28) != 6) return WireError::kBadVersion;
    return view;
  }

  [[nodiscard]] std::uint8_t traffic_class() const noexcept {
    return static_cast<std::uint8_t>((first_word() >> 20) & 0xff);
  }
  [[nodiscard]] std::uint32_t flow_label() const noexcept {
    return first_word() & Ipv6::kFlowLabelMask;
  }
  [[nodiscard]] std::uint16_t payload_octets() const noexcept {
    return load_be<std::uint16_t, 4>(octets_);
  }
  [[nodiscard]] IpProtocol next_header() const noexcept {
    return IpProtocol{load_be<std::uint8_t, 6>(octets_)};
  }
  [[nodiscard]] std::uint8_t hop_limit() const noexcept {
    return load_be<std::uint8_t, 7>(octets_);
  }
  [[nodiscard]] Gid source() const noexcept { return gid_at<8>(); }
  [[nodiscard]] Gid destination() const noexcept { return gid_at<24>(); }

  [[nodiscard]] Ipv6 value() const noexcept {
    return {.traffic_class = traffic_class(),
            .flow_label = flow_label(),
            .payload_octets = payload_octets(),
            .next_header = next_header(),
            .hop_limit = hop_limit(),
            .source = source(),
            .destination = destination()};
  }

 private:
  explicit Ipv6View(std::span<const std::byte, Ipv6::kSize> octets) noexcept : octets_(octets) {}
  [[nodiscard]] std::uint32_t first_word() const noexcept {
    return load_be<std::uint32_t, 0>(octets_);
  }
  template <std::size_t kOffset>
  [[nodiscard]] Gid gid_at() const noexcept {
    Gid gid;
    std::memcpy(gid.octets.data(), octets_.data() + kOffset, gid.octets.size());
    return gid;
  }
  std::span<const std::byte, Ipv6::kSize> octets_;
};

}  // namespace verbatim::wire
