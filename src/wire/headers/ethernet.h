// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/byte_order.h"
#include "base/expected.h"
#include "wire/headers/ids.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// The protocol in an Ethernet frame.
enum class EtherType : std::uint16_t { kIpv4 = 0x0800, kIpv6 = 0x86dd, kRoceV1 = 0x8915 };

struct MacAddress {
  std::array<std::uint8_t, 6> octets{};
  friend bool operator==(const MacAddress&, const MacAddress&) noexcept = default;
};

/// Ethernet II header, without a VLAN tag; a tagged frame shows 0x8100 as its type.
///
///     0..5 destination | 6..11 source | 12..13 type
struct Ethernet {
  static constexpr std::size_t kSize = 14;
  MacAddress destination{};
  MacAddress source{};
  EtherType type = EtherType::kIpv4;

  void emit(std::span<std::byte, kSize> to) const noexcept {
    std::memcpy(to.data(), destination.octets.data(), 6);
    std::memcpy(to.data() + 6, source.octets.data(), 6);
    store_be<std::uint16_t, 12>(to, static_cast<std::uint16_t>(type));
  }
};

/// A frame that arrived: parse() has checked that the header is complete. Short frames are padded,
/// so payload() may be longer than the sent payload; the IP header contains the length.
class EthernetView {
 public:
  static Expected<EthernetView, WireError> parse(std::span<const std::byte> frame) noexcept {
    if (frame.size() < Ethernet::kSize) return WireError::kTruncated;
    return EthernetView(frame.first<Ethernet::kSize>(), frame.subspan(Ethernet::kSize));
  }

  [[nodiscard]] MacAddress destination() const noexcept { return mac_at<0>(); }
  [[nodiscard]] MacAddress source() const noexcept { return mac_at<6>(); }
  [[nodiscard]] EtherType type() const noexcept {
    return EtherType{load_be<std::uint16_t, 12>(octets_)};
  }
  [[nodiscard]] std::span<const std::byte> payload() const noexcept { return payload_; }

  [[nodiscard]] Ethernet value() const noexcept {
    return {.destination = destination(), .source = source(), .type = type()};
  }

 private:
  EthernetView(std::span<const std::byte, Ethernet::kSize> octets,
               std::span<const std::byte> payload) noexcept
      : octets_(octets), payload_(payload) {}
  template <std::size_t kOffset>
  [[nodiscard]] MacAddress mac_at() const noexcept {
    MacAddress address;
    std::memcpy(address.octets.data(), octets_.data() + kOffset, address.octets.size());
    return address;
  }
  std::span<const std::byte, Ethernet::kSize> octets_;
  std::span<const std::byte> payload_;
};

/// The group address that a multicast GID is sent to: 01:00:5e and the low 23 bits over IPv4
/// (RFC 1112), 33:33 and the low 32 bits over IPv6 (RFC 2464).
[[nodiscard]] inline MacAddress multicast_mac_of(const Gid& group) noexcept {
  MacAddress mac;
  if (group.is_ipv4_mapped()) {
    mac.octets = {0x01,
                  0x00,
                  0x5e,
                  static_cast<std::uint8_t>(group.octets[13] & 0x7f),
                  group.octets[14],
                  group.octets[15]};
  } else {
    mac.octets = {0x33, 0x33};
    std::copy_n(group.octets.begin() + 12, 4, mac.octets.begin() + 2);
  }
  return mac;
}

/// An address for frames that never were on an Ethernet, as in a capture of a UDP socket or of a
/// simulation: locally administered, its last four octets those of the GID, so that a reader
/// recognises the host.
[[nodiscard]] inline MacAddress synthetic_mac_of(const Gid& gid) noexcept {
  if (gid.is_multicast()) return multicast_mac_of(gid);
  MacAddress mac;
  mac.octets = {0x02, 0x00};
  std::copy_n(gid.octets.begin() + 12, 4, mac.octets.begin() + 2);
  return mac;
}

}  // namespace verbatim::wire
