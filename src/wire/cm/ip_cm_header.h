// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "base/expected.h"
#include "wire/headers/ids.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// The header of rdma_cm before the user's private data in a REQ and a SIDR_REQ: it contains the IP
/// addresses and the source port (IBA Vol 1, annex A11.3). The destination port is in the service
/// ID. It occurs once per connection, so it is parsed into a value and has no view.
///
///     0 version | 1 IP version:4 reserved:4 | 2..3 source port
///     4..19 source address | 20..35 destination address (IPv4: in the last four octets)
struct IpCmHeader {
  static constexpr std::size_t kSize = 36;
  static constexpr std::uint8_t kVersion = 0;
  enum class IpVersion : std::uint8_t { k4 = 4, k6 = 6 };
  IpVersion ip_version = IpVersion::k4;
  std::uint16_t source_port = 0;
  Gid source{};  // IPv4 as ::ffff:a.b.c.d
  Gid destination{};
  friend bool operator==(const IpCmHeader&, const IpCmHeader&) noexcept = default;

  /// For two addresses of one family.
  static IpCmHeader between(const Gid& source, const Gid& destination,
                            std::uint16_t source_port) noexcept {
    return {.ip_version = source.is_ipv4_mapped() ? IpVersion::k4 : IpVersion::k6,
            .source_port = source_port,
            .source = source,
            .destination = destination};
  }

  /// `private_data` may be longer than the header. Reserved bits are not checked, nor are the
  /// twelve octets that IPv4 leaves unused.
  static Expected<IpCmHeader, WireError> parse(std::span<const std::byte> private_data) noexcept {
    if (private_data.size() < kSize) return WireError::kTruncated;
    const auto octets = private_data.first<kSize>();
    const auto ip_version = static_cast<IpVersion>(load_be<std::uint8_t, 1>(octets) >> 4);
    if (load_be<std::uint8_t, 0>(octets) != kVersion) return WireError::kBadVersion;
    if (ip_version != IpVersion::k4 && ip_version != IpVersion::k6) return WireError::kBadVersion;
    return IpCmHeader{.ip_version = ip_version,
                      .source_port = load_be<std::uint16_t, 2>(octets),
                      .source = address_from(octets.subspan<4, 16>(), ip_version),
                      .destination = address_from(octets.subspan<20, 16>(), ip_version)};
  }

  /// Writes every octet, reserved ones as zero.
  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint8_t, 0>(to, kVersion);
    store_be<std::uint8_t, 1>(
        to, static_cast<std::uint8_t>((static_cast<unsigned>(ip_version) & 0xfU) << 4));
    store_be<std::uint16_t, 2>(to, source_port);
    emit_address(to.subspan<4, 16>(), source);
    emit_address(to.subspan<20, 16>(), destination);
  }

 private:
  static constexpr std::size_t kUnusedByIpv4 = 12;  // octets of an address field

  static Gid address_from(std::span<const std::byte, 16> octets, IpVersion ip_version) noexcept {
    Gid gid;
    const bool is_ipv4 = ip_version == IpVersion::k4;
    if (is_ipv4) gid.octets[10] = gid.octets[11] = 0xff;
    for (std::size_t i = is_ipv4 ? kUnusedByIpv4 : 0; i < octets.size(); ++i) {
      gid.octets[i] = std::to_integer<std::uint8_t>(octets[i]);
    }
    return gid;
  }
  void emit_address(std::span<std::byte, 16> to, const Gid& gid) const noexcept {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::byte>(gid.octets[i]);
    if (ip_version == IpVersion::k4) {
      std::ranges::fill(to.first<kUnusedByIpv4>(), std::byte{0});
    }
  }
};

}  // namespace verbatim::wire
