// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/ids.h"

namespace verbatim::wire {

/// The part of an invariant CRC that lies in front of the BTH (IBA Vol 1, 7.8.1 and annex A17.3.3):
/// everything that a flow's packets have in common, so that each packet only adds its length and,
/// over IPv4, its identification. A value; build one per connection, not per packet.
class IcrcSeed {
 public:
  /// Two addresses of one family (an IPv4-mapped pair is sent over IPv4, else over IPv6).
  static IcrcSeed roce_v2(const Gid& source, const Gid& destination,
                          std::uint16_t source_port) noexcept;
  static IcrcSeed roce_v1(const Gid& source, const Gid& destination) noexcept;

  /// The CRC register after all that stands in front of the BTH, for a packet that has
  /// `transport_octets` from the BTH's first to the ICRC's last octet.
  [[nodiscard]] std::uint32_t start(std::size_t transport_octets,
                                    std::uint16_t ipv4_identification = 0) const noexcept;

  [[nodiscard]] bool is_ipv4() const noexcept { return kind_ == Kind::kRoceV2Ipv4; }

 private:
  enum class Kind : std::uint8_t { kRoceV2Ipv4, kRoceV2Ipv6, kRoceV1 };
  IcrcSeed() = default;
  Kind kind_ = Kind::kRoceV2Ipv4;
  std::uint16_t source_port_ = 0;
  Gid source_{};
  Gid destination_{};
};

/// Carries the register on over a transport packet's headers: BTH first, its fifth octet masked.
/// `headers` starts with the BTH and holds at least its 12 octets.
[[nodiscard]] std::uint32_t icrc_over_headers(std::uint32_t state,
                                              std::span<const std::byte> headers) noexcept;

/// Stores the finished ICRC as it goes on the wire.
void store_icrc(std::span<std::byte, 4> to, std::uint32_t state) noexcept;

/// Computes the ICRC of `transport` (BTH to ICRC) and compares it with its last four octets.
/// Over IPv4 the identification is covered and a UDP socket does not show it: where the packet does
/// not fit identification 0, the one it fits is solved for (the CRC is linear). Returns the
/// identification, or nothing when no identification makes the packet right; then it is corrupt.
[[nodiscard]] std::optional<std::uint16_t> verify_icrc(
    const IcrcSeed& seed, std::span<const std::byte> transport) noexcept;

/// Native InfiniBand: `packet` is LRH .. ICRC (VCRC not included).
[[nodiscard]] std::uint32_t icrc_of_native(std::span<const std::byte> packet_without_icrc) noexcept;

}  // namespace verbatim::wire
