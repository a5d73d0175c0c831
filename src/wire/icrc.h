// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/byte_order.h"
#include "wire/crc32_kernels.h"
#include "wire/ids.h"

namespace verbatim::wire {

/// What fits into an IPv4 datagram behind its own and the UDP header.
inline constexpr std::size_t kIcrcMaxTransportOctets = 0xffff - 20 - 8;

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
  /// `transport_octets` from the BTH's first to the ICRC's last octet, at most
  /// kIcrcMaxTransportOctets. Over IPv4 the "don't fragment" flag is taken to be set.
  [[nodiscard]] std::uint32_t start(std::size_t transport_octets,
                                    std::uint16_t ipv4_identification = 0) const noexcept;

  [[nodiscard]] bool is_ipv4() const noexcept { return kind_ == Kind::kRoceV2Ipv4; }

 private:
  enum class Kind : std::uint8_t { kRoceV2Ipv4, kRoceV2Ipv6, kRoceV1 };
  IcrcSeed(Kind kind, std::uint32_t without_lengths) noexcept
      : kind_(kind), without_lengths_(without_lengths) {}
  Kind kind_;
  std::uint32_t without_lengths_;  // the register at the BTH, lengths and identification being 0
};

/// Carries the register on over a transport packet's headers: BTH first, its fifth octet masked.
/// `headers` starts with the BTH and holds at least its 12 octets.
[[nodiscard]] std::uint32_t icrc_over_headers(std::uint32_t state,
                                              std::span<const std::byte> headers) noexcept;

/// The same for many packets that are alike: one flow, one length, a BTH and nothing else in front
/// of the payload. What they have in common is computed once. A value, as long as the train.
class IcrcRun {
 public:
  IcrcRun(const IcrcSeed& seed, std::size_t transport_octets) noexcept;

  /// The first eight octets of the BTHs that follow, as they lie in memory.
  void share(std::uint64_t front) noexcept;
  /// Copies the payload of a packet behind such a BTH, the rest of which is `back`, as it lies in
  /// memory, and returns the register. After share().
  [[nodiscard]] std::uint32_t copy(std::uint32_t back, std::uint16_t ipv4_identification,
                                   std::byte* to,
                                   std::span<const std::byte> payload) const noexcept {
    const std::uint32_t part = kIdentificationHigh[(ipv4_identification >> 8) & identified_] ^
                               kIdentificationLow[ipv4_identification & identified_];
    return copy_(front_ ^ part, back, to, payload.data(), payload.size());
  }

 private:
  // What either octet of an identification has in the register behind the first eight octets.
  static const std::array<std::uint32_t, 256> kIdentificationHigh;
  static const std::array<std::uint32_t, 256> kIdentificationLow;

  decltype(Crc32Kernel::copy_behind) copy_;  // what this CPU got
  std::uint32_t start_;                      // the register at the BTH, the identification being 0
  std::uint32_t front_ = 0;                  // and behind the octets that are shared
  std::uint32_t identified_;                 // the bits of an identification's octet that count
};

/// Stores the finished ICRC as it goes on the wire: least significant octet first, as the register
/// shifts it out.
inline void store_icrc(std::span<std::byte, 4> to, std::uint32_t state) noexcept {
  store_be<std::uint32_t, 0>(to, __builtin_bswap32(~state));
}

/// Whether these four octets are the ICRC that `state` is finished to.
[[nodiscard]] inline bool is_icrc(std::span<const std::byte, 4> octets,
                                  std::uint32_t state) noexcept {
  return load_be<std::uint32_t, 0>(octets) == __builtin_bswap32(~state);
}

/// Changes a finished packet (BTH to ICRC, at most kIcrcMaxTransportOctets) over IPv4 from one
/// identification to another without reading the rest of it.
void change_identification(std::span<std::byte> transport, std::uint16_t from,
                           std::uint16_t to) noexcept;

/// Computes the ICRC of `transport` (BTH to ICRC) and compares it with its last four octets.
/// Returns nothing when the packet is corrupt, too short or too long.
///
/// Over IPv4 the identification and the flags are covered, and a UDP socket shows neither. Where
/// the packet does not fit the expected identification with "don't fragment" set, the pair that it
/// does fit is solved for (the CRC is linear) and accepted if it is one that a whole datagram can
/// have: any identification, "don't fragment" set or not, all other flags and the fragment offset
/// 0. So one random corruption in 2^15 passes, against one in 2^32 over IPv6. Of all single bits of
/// a packet two are not noticed, 3 of octet 173 and 6 of octet 1834: they look like a peer that
/// sets no flag.
///
/// The result is the identification; 0 over IPv6 and with RoCEv1.
[[nodiscard]] std::optional<std::uint16_t> verify_icrc(
    const IcrcSeed& seed, std::span<const std::byte> transport,
    std::uint16_t expected_identification = 0) noexcept;

/// Native InfiniBand: the register, for store_icrc(), after a packet from the first octet of its
/// LRH to the last in front of its ICRC (IBA Vol 1, 7.8.1). What the LRH announces but is not there
/// is not added; raw packets (LNH 0 and 1) have no ICRC, and the result means nothing.
[[nodiscard]] std::uint32_t icrc_of_native(std::span<const std::byte> packet_without_icrc) noexcept;

}  // namespace verbatim::wire
