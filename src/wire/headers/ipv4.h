// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "base/byte_order.h"
#include "base/expected.h"
#include "wire/crc/internet_checksum.h"
#include "wire/headers/ids.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// The protocols that an IP header names (IANA); RoCEv2 needs one of them.
enum class IpProtocol : std::uint8_t { kUdp = 17 };

struct Ipv4Address {
  std::array<std::uint8_t, 4> octets{};
  friend bool operator==(const Ipv4Address&, const Ipv4Address&) noexcept = default;
};

/// ::ffff:a.b.c.d, the GID of an IPv4 address (IBA Vol 1, annex A17.4.1).
[[nodiscard]] inline Gid gid_of(const Ipv4Address& address) noexcept {
  Gid gid;
  gid.octets[10] = 0xff;
  gid.octets[11] = 0xff;
  std::copy_n(address.octets.begin(), 4, gid.octets.begin() + 12);
  return gid;
}
/// The reverse; only for a GID that is_ipv4_mapped().
[[nodiscard]] inline Ipv4Address ipv4_of(const Gid& gid) noexcept {
  VB_ASSERT(gid.is_ipv4_mapped());
  Ipv4Address address;
  std::copy_n(gid.octets.begin() + 12, 4, address.octets.begin());
  return address;
}

/// IPv4 header without options (RFC 791), the only form that RoCEv2 allows.
///
///     0 Version:4 IHL:4 | 1 TOS | 2..3 total length | 4..5 identification
///     6..7 reserved:1 DF:1 MF:1 fragment offset:13 | 8 TTL | 9 protocol | 10..11 checksum
///     12..15 source | 16..19 destination
struct Ipv4 {
  static constexpr std::size_t kSize = 20;
  std::uint8_t traffic_class = 0;  // DSCP in the upper six bits, ECN in the lower two
  std::uint16_t total_octets = 0;  // this header and all that follows
  std::uint16_t identification = 0;
  bool dont_fragment = true;  // a receiver could not use a fragment
  std::uint8_t time_to_live = 64;
  IpProtocol protocol = IpProtocol::kUdp;
  Ipv4Address source{};
  Ipv4Address destination{};

  /// Writes every octet, the checksum included.
  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint8_t, 0>(to, 0x45);
    store_be<std::uint8_t, 1>(to, traffic_class);
    store_be<std::uint16_t, 2>(to, total_octets);
    store_be<std::uint16_t, 4>(to, identification);
    store_be<std::uint16_t, 6>(to, dont_fragment ? std::uint16_t{0x4000} : std::uint16_t{0});
    store_be<std::uint8_t, 8>(to, time_to_live);
    store_be<std::uint8_t, 9>(to, static_cast<std::uint8_t>(protocol));
    store_be<std::uint16_t, 10>(to, 0);
    std::copy_n(std::as_bytes(std::span(source.octets)).data(), 4, to.data() + 12);
    std::copy_n(std::as_bytes(std::span(destination.octets)).data(), 4, to.data() + 16);
    store_be<std::uint16_t, 10>(to, InternetChecksum().add(to).finish());
  }
};

/// An IPv4 header that arrived, with its options. parse() has checked that the header is complete;
/// the caller must check the checksum and the length.
class Ipv4View {
 public:
  static Expected<Ipv4View, WireError> parse(std::span<const std::byte> datagram) noexcept {
    if (datagram.size() < Ipv4::kSize) return WireError::kTruncated;
    const Ipv4View view(datagram.first<Ipv4::kSize>(), datagram);
    if ((load_be<std::uint8_t, 0>(view.octets_) >> 4) != 4) return WireError::kBadVersion;
    if (view.header_octets() < Ipv4::kSize) return WireError::kBadLength;
    if (datagram.size() < view.header_octets()) return WireError::kTruncated;
    return view;
  }

  [[nodiscard]] std::size_t header_octets() const noexcept {
    return std::size_t{4} * (load_be<std::uint8_t, 0>(octets_) & 0x0fU);
  }
  [[nodiscard]] bool has_options() const noexcept { return header_octets() != Ipv4::kSize; }
  [[nodiscard]] std::uint8_t traffic_class() const noexcept {
    return load_be<std::uint8_t, 1>(octets_);
  }
  [[nodiscard]] std::uint16_t total_octets() const noexcept {
    return load_be<std::uint16_t, 2>(octets_);
  }
  [[nodiscard]] std::uint16_t identification() const noexcept {
    return load_be<std::uint16_t, 4>(octets_);
  }
  [[nodiscard]] bool dont_fragment() const noexcept { return (fragment_word() & 0x4000) != 0; }
  /// Whether this is only a part of a datagram: more fragments follow, or this is not the first.
  [[nodiscard]] bool is_fragment() const noexcept { return (fragment_word() & 0x3fff) != 0; }
  [[nodiscard]] std::uint8_t time_to_live() const noexcept {
    return load_be<std::uint8_t, 8>(octets_);
  }
  [[nodiscard]] IpProtocol protocol() const noexcept {
    return IpProtocol{load_be<std::uint8_t, 9>(octets_)};
  }
  [[nodiscard]] std::uint16_t checksum() const noexcept {
    return load_be<std::uint16_t, 10>(octets_);
  }
  [[nodiscard]] bool checksum_holds() const noexcept {
    return InternetChecksum().add(datagram_.first(header_octets())).finish() == 0;
  }
  [[nodiscard]] Ipv4Address source() const noexcept { return address_at<12>(); }
  [[nodiscard]] Ipv4Address destination() const noexcept { return address_at<16>(); }

  /// The header as a value, without options and fragment offset, and with a right checksum.
  [[nodiscard]] Ipv4 value() const noexcept {
    return {.traffic_class = traffic_class(),
            .total_octets = total_octets(),
            .identification = identification(),
            .dont_fragment = dont_fragment(),
            .time_to_live = time_to_live(),
            .protocol = protocol(),
            .source = source(),
            .destination = destination()};
  }

 private:
  Ipv4View(std::span<const std::byte, Ipv4::kSize> octets,
           std::span<const std::byte> datagram) noexcept
      : octets_(octets), datagram_(datagram) {}
  [[nodiscard]] std::uint16_t fragment_word() const noexcept {
    return load_be<std::uint16_t, 6>(octets_);
  }
  template <std::size_t kOffset>
  [[nodiscard]] Ipv4Address address_at() const noexcept {
    Ipv4Address address;
    std::memcpy(address.octets.data(), octets_.data() + kOffset, address.octets.size());
    return address;
  }
  std::span<const std::byte, Ipv4::kSize> octets_;
  std::span<const std::byte> datagram_;  // header_octets() of it are there
};

}  // namespace verbatim::wire
