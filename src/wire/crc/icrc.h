// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/byte_order.h"
#include "wire/crc/crc32_kernels.h"
#include "wire/headers/ids.h"
#include "wire/headers/local_route.h"

namespace verbatim::wire {

/// The most octets that an IPv4 datagram has room for after its own and the UDP header.
inline constexpr std::size_t kIcrcMaxTransportOctets = 0xffff - 20 - 8;

/// The part of an invariant CRC before the BTH (IBA Vol 1, 7.8.1 and annex A17.3.3): everything
/// that the packets of a flow have in common. Each packet adds only its length and, over IPv4, its
/// identification. A value; build one per connection, not per packet.
class IcrcSeed {
 public:
  /// Two addresses of one family (an IPv4-mapped pair is sent over IPv4, else over IPv6).
  static IcrcSeed roce_v2(const Gid& source, const Gid& destination,
                          std::uint16_t source_port) noexcept;
  static IcrcSeed roce_v1(const Gid& source, const Gid& destination) noexcept;
  /// A native packet without a GRH. With one its ICRC is that of RoCEv1: the LRH counts as ones.
  static IcrcSeed native(const LocalRoute& route) noexcept;
  /// Of a native packet if it has a local route, with a GRH if it has GIDs; else of RoCEv2.
  static IcrcSeed of(const LocalRoute& route, const Gid& source, const Gid& destination,
                     std::uint16_t source_port) noexcept;

  /// The CRC register after everything before the BTH, for a packet that has `transport_octets`
  /// from the BTH's first to the ICRC's last octet, at most kIcrcMaxTransportOctets. Over IPv4 the
  /// "don't fragment" flag is assumed to be set.
  [[nodiscard]] std::uint32_t start(std::size_t transport_octets,
                                    std::uint16_t ipv4_identification = 0) const noexcept;

  [[nodiscard]] bool is_ipv4() const noexcept { return kind_ == Kind::kRoceV2Ipv4; }

 private:
  enum class Kind : std::uint8_t { kRoceV2Ipv4, kRoceV2Ipv6, kRoceV1, kNative };
  IcrcSeed(Kind kind, std::uint32_t without_lengths) noexcept
      : kind_(kind), without_lengths_(without_lengths) {}
  Kind kind_;
  std::uint32_t without_lengths_;  // the register at the BTH, with lengths and identification 0
};

/// Advances the register over the headers of a transport packet: BTH first, its fifth octet masked.
/// `headers` starts with the BTH and holds at least its 12 octets.
[[nodiscard]] std::uint32_t icrc_over_headers(std::uint32_t state,
                                              std::span<const std::byte> headers) noexcept;

/// The same for many packets of one flow and one length that have only a BTH before the payload.
/// The common part is computed once. A value for the time of one train.
class IcrcRun {
 public:
  IcrcRun(const IcrcSeed& seed, std::size_t transport_octets) noexcept;

  /// Sets the first eight octets of the following BTHs, in memory order.
  void share(std::uint64_t front) noexcept;
  /// Copies the payload of a packet after such a BTH, whose last four octets are `back` in memory
  /// order, and returns the register. After share().
  [[nodiscard]] std::uint32_t copy(std::uint32_t back, std::uint16_t ipv4_identification,
                                   std::byte* to,
                                   std::span<const std::byte> payload) const noexcept {
    const std::uint32_t part = kIdentificationHigh[(ipv4_identification >> 8) & identified_] ^
                               kIdentificationLow[ipv4_identification & identified_];
    return copy_(front_ ^ part, back, to, payload.data(), payload.size());
  }

 private:
  // The part of each octet of an identification in the register after the first eight octets.
  static const std::array<std::uint32_t, 256> kIdentificationHigh;
  static const std::array<std::uint32_t, 256> kIdentificationLow;

  decltype(Crc32Kernel::copy_behind) copy_;  // of the kernel for this CPU
  std::uint32_t start_;                      // the register at the BTH, with identification 0
  std::uint32_t front_ = 0;                  // the register after the shared octets
  std::uint32_t identified_;                 // the bits of an identification's octet that count
};

/// Stores the finished ICRC in wire order: least significant octet first, as the register shifts it
/// out.
inline void store_icrc(std::span<std::byte, 4> to, std::uint32_t state) noexcept {
  store_be<std::uint32_t, 0>(to, __builtin_bswap32(~state));
}

/// Whether these four octets are the finished ICRC of `state`.
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
/// Over IPv4 the ICRC covers the identification and the flags, and a UDP socket shows neither. If
/// the packet does not match the expected identification with "don't fragment" set, the pair that
/// it does match is computed (the CRC is linear). It is accepted if a whole datagram can have it:
/// any identification, "don't fragment" set or not, all other flags and the fragment offset 0. So
/// one random corruption in 2^15 passes, against one in 2^32 over IPv6. Of all single-bit errors in
/// a packet two are not detected, bit 3 of octet 173 and bit 6 of octet 1834: they look like a
/// sender that sets no flag.
///
/// The result is the identification; 0 without IPv4.
[[nodiscard]] std::optional<std::uint16_t> verify_icrc(
    const IcrcSeed& seed, std::span<const std::byte> transport,
    std::uint16_t expected_identification = 0) noexcept;

/// Native InfiniBand: the register, for store_icrc(), after a packet from the first octet of its
/// LRH to the last before its ICRC (IBA Vol 1, 7.8.1). Headers that the LRH announces but that are
/// missing are not added. Raw packets (LNH 0 and 1) have no ICRC; for them the result means
/// nothing.
[[nodiscard]] std::uint32_t icrc_of_native(std::span<const std::byte> packet_without_icrc) noexcept;

}  // namespace verbatim::wire
