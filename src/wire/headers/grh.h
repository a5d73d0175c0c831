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

/// Global Route Header (IBA Vol 1, 8.3): routes a native packet between subnets, is the first
/// header of a RoCEv1 packet, and has the layout of an IPv6 header.
///
///     0..3 IPVer:4 TClass:8 FlowLabel:20 | 4..5 PayLen | 6 NxtHdr | 7 HopLmt
///     8..23 source GID | 24..39 destination GID
struct Grh {
  static constexpr std::size_t kSize = 40;
  static constexpr std::uint8_t kIbaTransport = 0x1b;  // NxtHdr: a BTH follows
  static constexpr std::uint32_t kFlowLabelMask = 0x000f'ffff;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;      // 20 bits
  std::uint16_t payload_octets = 0;  // after this header, to the end of the ICRC
  std::uint8_t next_header = kIbaTransport;
  std::uint8_t hop_limit = 64;
  Gid source{};
  Gid destination{};

  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint32_t, 0>(
        to, 0x6000'0000U | (std::uint32_t{traffic_class} << 20) | (flow_label & kFlowLabelMask));
    store_be<std::uint16_t, 4>(to, payload_octets);
    store_be<std::uint8_t, 6>(to, next_header);
    store_be<std::uint8_t, 7>(to, hop_limit);
    std::memcpy(to.data() + 8, source.octets.data(), source.octets.size());
    std::memcpy(to.data() + 24, destination.octets.data(), destination.octets.size());
  }
};

/// A global route header that arrived: parse() has checked its length and version.
class GrhView {
 public:
  static Expected<GrhView, WireError> parse(std::span<const std::byte> packet) noexcept {
    if (packet.size() < Grh::kSize) return WireError::kTruncated;
    const GrhView view(packet.first<Grh::kSize>());
    if ((view.first_word() >> 28) != 6) return WireError::kBadVersion;
    return view;
  }

  [[nodiscard]] std::uint8_t traffic_class() const noexcept {
    return static_cast<std::uint8_t>((first_word() >> 20) & 0xff);
  }
  [[nodiscard]] std::uint32_t flow_label() const noexcept {
    return first_word() & Grh::kFlowLabelMask;
  }
  [[nodiscard]] std::uint16_t payload_octets() const noexcept {
    return load_be<std::uint16_t, 4>(octets_);
  }
  [[nodiscard]] std::uint8_t next_header() const noexcept {
    return load_be<std::uint8_t, 6>(octets_);
  }
  [[nodiscard]] std::uint8_t hop_limit() const noexcept {
    return load_be<std::uint8_t, 7>(octets_);
  }
  [[nodiscard]] Gid source() const noexcept { return gid_at<8>(); }
  [[nodiscard]] Gid destination() const noexcept { return gid_at<24>(); }

  [[nodiscard]] Grh value() const noexcept {
    return {.traffic_class = traffic_class(),
            .flow_label = flow_label(),
            .payload_octets = payload_octets(),
            .next_header = next_header(),
            .hop_limit = hop_limit(),
            .source = source(),
            .destination = destination()};
  }

 private:
  explicit GrhView(std::span<const std::byte, Grh::kSize> octets) noexcept : octets_(octets) {}
  [[nodiscard]] std::uint32_t first_word() const noexcept {
    return load_be<std::uint32_t, 0>(octets_);
  }
  template <std::size_t kOffset>
  [[nodiscard]] Gid gid_at() const noexcept {
    Gid gid;
    std::memcpy(gid.octets.data(), octets_.data() + kOffset, gid.octets.size());
    return gid;
  }
  std::span<const std::byte, Grh::kSize> octets_;
};

}  // namespace verbatim::wire
