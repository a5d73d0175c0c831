// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "base/expected.h"
#include "wire/crc/internet_checksum.h"
#include "wire/headers/ids.h"
#include "wire/headers/ipv4.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// The UDP destination port of RoCEv2, in both directions (IBA Vol 1, annex A17; IANA "ri-port").
inline constexpr std::uint16_t kRoceUdpPort = 4791;

/// UDP header (RFC 768).
///
///     0..1 source port | 2..3 destination port | 4..5 length | 6..7 checksum
struct Udp {
  static constexpr std::size_t kSize = 8;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = kRoceUdpPort;
  std::uint16_t octets = 0;    // this header and all that follows
  std::uint16_t checksum = 0;  // 0 means none; the ICRC protects the packet

  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint16_t, 0>(to, source_port);
    store_be<std::uint16_t, 2>(to, destination_port);
    store_be<std::uint16_t, 4>(to, octets);
    store_be<std::uint16_t, 6>(to, checksum);
  }
};

/// A UDP header that arrived: parse() has checked that its eight octets are present.
class UdpView {
 public:
  static Expected<UdpView, WireError> parse(std::span<const std::byte> datagram) noexcept {
    if (datagram.size() < Udp::kSize) return WireError::kTruncated;
    return UdpView(datagram.first<Udp::kSize>());
  }

  [[nodiscard]] std::uint16_t source_port() const noexcept {
    return load_be<std::uint16_t, 0>(octets_);
  }
  [[nodiscard]] std::uint16_t destination_port() const noexcept {
    return load_be<std::uint16_t, 2>(octets_);
  }
  [[nodiscard]] std::uint16_t octets() const noexcept { return load_be<std::uint16_t, 4>(octets_); }
  [[nodiscard]] std::uint16_t checksum() const noexcept {
    return load_be<std::uint16_t, 6>(octets_);
  }

  [[nodiscard]] Udp value() const noexcept {
    return {.source_port = source_port(),
            .destination_port = destination_port(),
            .octets = octets(),
            .checksum = checksum()};
  }

 private:
  explicit UdpView(std::span<const std::byte, Udp::kSize> octets) noexcept : octets_(octets) {}
  std::span<const std::byte, Udp::kSize> octets_;
};

/// The UDP checksum (RFC 768, RFC 8200 8.1) over pseudo header, UDP header and payload. `segment`
/// starts with the UDP header. A sum of zero is sent as 0xffff; over a segment with a right
/// checksum the result is 0xffff as well.
[[nodiscard]] inline std::uint16_t udp_checksum(const Gid& source, const Gid& destination,
                                                std::span<const std::byte> segment) noexcept {
  const bool ipv4 = source.is_ipv4_mapped() && destination.is_ipv4_mapped();
  const std::size_t skip = ipv4 ? 12 : 0;
  const std::uint16_t sum = InternetChecksum()
                                .add(std::as_bytes(std::span(source.octets)).subspan(skip))
                                .add(std::as_bytes(std::span(destination.octets)).subspan(skip))
                                .add(static_cast<std::uint16_t>(IpProtocol::kUdp))
                                .add(static_cast<std::uint16_t>(segment.size()))
                                .add(segment)
                                .finish();
  return sum == 0 ? std::uint16_t{0xffff} : sum;
}

}  // namespace verbatim::wire
