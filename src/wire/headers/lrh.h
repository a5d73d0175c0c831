// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "base/expected.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// The number of a port in a subnet (IBA Vol 1, 4.1.1).
enum class Lid : std::uint16_t {
  kReserved = 0,
  kFirstMulticast = 0xc000,
  kPermissive = 0xffff  // the port at the other end of the link, whatever its LID
};

/// One of the up to 16 queues of a link; the last one is for subnet management only (7.6).
enum class VirtualLane : std::uint8_t { kManagement = 15 };

/// The quality of service of a packet; each link maps it to a virtual lane (7.6.5).
enum class ServiceLevel : std::uint8_t {};

/// The header after a local route header: LNH (7.7.3).
enum class LinkNextHeader : std::uint8_t {
  kRaw = 0,
  kRawIpv6 = 1,
  kBth = 2,  // local
  kGrh = 3,  // global: a GRH, then the BTH
};

/// Local Route Header, the first eight octets of a native InfiniBand packet (7.7).
///
///     0 VL:4 LVer:4 | 1 SL:4 reserved:2 LNH:2 | 2..3 destination LID
///     4..5 reserved:5 packet length:11 | 6..7 source LID
struct Lrh {
  static constexpr std::size_t kSize = 8;
  static constexpr std::uint16_t kPacketWordsMask = 0x07ff;
  VirtualLane lane{};
  ServiceLevel level{};
  LinkNextHeader next_header = LinkNextHeader::kBth;
  Lid destination{};
  std::uint16_t packet_words = 0;  // 4-octet words from here to the end of the ICRC; 11 bits
  Lid source{};

  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint8_t, 0>(to, static_cast<std::uint8_t>(static_cast<unsigned>(lane) << 4));
    store_be<std::uint8_t, 1>(to,
                              static_cast<std::uint8_t>((static_cast<unsigned>(level) << 4) |
                                                        (static_cast<unsigned>(next_header) & 3)));
    store_be<std::uint16_t, 2>(to, static_cast<std::uint16_t>(destination));
    store_be<std::uint16_t, 4>(to, packet_words & kPacketWordsMask);
    store_be<std::uint16_t, 6>(to, static_cast<std::uint16_t>(source));
  }
};

/// A local route header that arrived: parse() has checked its length and version.
class LrhView {
 public:
  static Expected<LrhView, WireError> parse(std::span<const std::byte> packet) noexcept {
    if (packet.size() < Lrh::kSize) return WireError::kTruncated;
    const LrhView view(packet.first<Lrh::kSize>());
    if ((load_be<std::uint8_t, 0>(view.octets_) & 0x0f) != 0) return WireError::kBadVersion;
    return view;
  }

  [[nodiscard]] VirtualLane lane() const noexcept {
    return VirtualLane{static_cast<std::uint8_t>(load_be<std::uint8_t, 0>(octets_) >> 4)};
  }
  [[nodiscard]] ServiceLevel level() const noexcept {
    return ServiceLevel{static_cast<std::uint8_t>(load_be<std::uint8_t, 1>(octets_) >> 4)};
  }
  [[nodiscard]] LinkNextHeader next_header() const noexcept {
    return LinkNextHeader{static_cast<std::uint8_t>(load_be<std::uint8_t, 1>(octets_) & 3)};
  }
  [[nodiscard]] Lid destination() const noexcept { return Lid{load_be<std::uint16_t, 2>(octets_)}; }
  [[nodiscard]] std::uint16_t packet_words() const noexcept {
    return load_be<std::uint16_t, 4>(octets_) & Lrh::kPacketWordsMask;
  }
  [[nodiscard]] Lid source() const noexcept { return Lid{load_be<std::uint16_t, 6>(octets_)}; }

  /// The header as a value, with reserved bits zero.
  [[nodiscard]] Lrh value() const noexcept {
    return {.lane = lane(),
            .level = level(),
            .next_header = next_header(),
            .destination = destination(),
            .packet_words = packet_words(),
            .source = source()};
  }

 private:
  explicit LrhView(std::span<const std::byte, Lrh::kSize> octets) noexcept : octets_(octets) {}
  std::span<const std::byte, Lrh::kSize> octets_;
};

}  // namespace verbatim::wire
