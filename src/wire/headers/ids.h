// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace verbatim::wire {

/// 24 bits that identify a queue pair of one port (IBA Vol 1, 9.2.6).
enum class QpNumber : std::uint32_t {
  kSmi = 0,                 // QP0: subnet management
  kGsi = 1,                 // QP1: general services, communication management among them
  kMulticast = 0x00ff'ffff  // every queue pair attached to the group
};
inline constexpr std::uint32_t kQpNumberMask = 0x00ff'ffff;

/// Partition key: bit 15 is full membership, the rest names the partition (10.9.3).
enum class PKey : std::uint16_t { kDefault = 0xffff };

/// What a datagram must present to a queue pair (10.2.5). Bit 31 marks a controlled key.
enum class QKey : std::uint32_t { kGsi = 0x8001'0000 };

/// Identifies a memory region or window, for local and for remote use (10.6): the upper 24 bits are
/// an index into a key table, the low octet distinguishes successive uses of one entry.
enum class MemoryKey : std::uint32_t {};

/// Numbers a shared receive queue for XRC (24 bits).
enum class SrqNumber : std::uint32_t {};

/// Immediate data: not interpreted, in network order as the verbs have it.
enum class Immediate : std::uint32_t {};

/// A global identifier; on RoCEv2 an IPv6 address, or an IPv4 address as ::ffff:a.b.c.d.
struct Gid {
  std::array<std::uint8_t, 16> octets{};
  /// Called for every packet, so it compares words and does not call memcmp().
  friend bool operator==(const Gid& a, const Gid& b) noexcept {
    return a.word(0) == b.word(0) && a.word(1) == b.word(1);
  }

  [[nodiscard]] bool is_ipv4_mapped() const noexcept {
    constexpr std::array<std::uint8_t, 4> kMark{0, 0, 0xff, 0xff};
    return word(0) == 0 && std::memcmp(octets.data() + 8, kMark.data(), kMark.size()) == 0;
  }
  [[nodiscard]] bool is_multicast() const noexcept {
    return is_ipv4_mapped() ? (octets[12] & 0xf0) == 0xe0 : octets[0] == 0xff;
  }

 private:
  [[nodiscard]] std::uint64_t word(std::size_t number) const noexcept {
    std::uint64_t word;
    std::memcpy(&word, octets.data() + number * sizeof word, sizeof word);
    return word;
  }
};

/// The partition rule of 10.9.3: the same partition, and at least one side a full member.
[[nodiscard]] constexpr bool pkeys_match(PKey a, PKey b) noexcept {
  const auto x = static_cast<std::uint16_t>(a);
  const auto y = static_cast<std::uint16_t>(b);
  return (x & 0x7fff) == (y & 0x7fff) && (x & 0x7fff) != 0 && ((x | y) & 0x8000) != 0;
}

/// Path MTU as the verbs number it: payload octets of one packet.
enum class PathMtu : std::uint8_t { k256 = 1, k512 = 2, k1024 = 3, k2048 = 4, k4096 = 5 };
[[nodiscard]] constexpr std::uint32_t octets_of(PathMtu mtu) noexcept {
  return 128U << static_cast<unsigned>(mtu);
}

}  // namespace verbatim::wire
