// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/expected.h"

namespace verbatim::host {

/// The packets that a shared socket is for: those to one slot at one local address.
struct SocketLabel {
  std::array<std::uint8_t, 16> address{};  // IPv6, or IPv4-mapped
  std::uint32_t scope = 0;                 // interface index where the address needs one
  std::uint32_t slot = 0;

  [[nodiscard]] bool is_beside(const SocketLabel& other) const noexcept {
    return address == other.address && scope == other.scope;
  }
  friend bool operator==(const SocketLabel&, const SocketLabel&) = default;
};

/// Messages between processes that share the port, one per packet of a SOCK_SEQPACKET connection.
/// Frozen: processes of different versions share one port.
///
///     0..3 "VBP1" | 4 kind | 5 flags: 1 = more follows | 6..7 count | count entries of 24 octets
///     entry: 0..15 address | 16..19 scope | 20..23 slot        numbers in the host's byte order
struct ShareMessage {
  enum class Kind : std::uint8_t {
    kWant = 1,  // asks for all sockets of these addresses; the slots are not used
    kHave = 2,  // the sockets that come with this message, in the order of the entries
  };
  static constexpr std::size_t kEntriesMax = 253;  // descriptors in one packet (SCM_MAX_FD)
  static constexpr std::size_t kHeaderOctets = 8;
  static constexpr std::size_t kEntryOctets = 24;
  static constexpr std::size_t kOctetsMax = kHeaderOctets + kEntriesMax * kEntryOctets;

  Kind kind = Kind::kWant;
  bool more_follows = false;
  std::size_t count = 0;
  std::array<SocketLabel, kEntriesMax> entries{};

  /// Returns how many octets were written.
  std::size_t emit(std::span<std::byte, kOctetsMax> to) const noexcept {
    std::memcpy(to.data(), kMagic, sizeof kMagic);
    to[4] = static_cast<std::byte>(kind);
    to[5] = static_cast<std::byte>(more_follows ? 1 : 0);
    const auto entry_count = static_cast<std::uint16_t>(count);
    std::memcpy(to.data() + 6, &entry_count, sizeof entry_count);
    for (std::size_t i = 0; i < count; ++i) {
      std::byte* at = to.data() + kHeaderOctets + i * kEntryOctets;
      std::memcpy(at, entries[i].address.data(), 16);
      std::memcpy(at + 16, &entries[i].scope, 4);
      std::memcpy(at + 20, &entries[i].slot, 4);
    }
    return kHeaderOctets + count * kEntryOctets;
  }

  /// kInvalidArgument for octets that are no such message, or of an unknown kind.
  [[nodiscard]] Status parse(std::span<const std::byte> from) noexcept {
    if (from.size() < kHeaderOctets || std::memcmp(from.data(), kMagic, sizeof kMagic) != 0) {
      return Errc::kInvalidArgument;
    }
    const auto raw_kind = std::to_integer<std::uint8_t>(from[4]);
    std::uint16_t entry_count = 0;
    std::memcpy(&entry_count, from.data() + 6, sizeof entry_count);
    if ((raw_kind != 1 && raw_kind != 2) || entry_count > kEntriesMax ||
        from.size() != kHeaderOctets + entry_count * kEntryOctets) {
      return Errc::kInvalidArgument;
    }
    kind = Kind{raw_kind};
    more_follows = (from[5] & std::byte{1}) != std::byte{0};
    count = entry_count;
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* at = from.data() + kHeaderOctets + i * kEntryOctets;
      std::memcpy(entries[i].address.data(), at, 16);
      std::memcpy(&entries[i].scope, at + 16, 4);
      std::memcpy(&entries[i].slot, at + 20, 4);
    }
    return Ok{};
  }

 private:
  static constexpr char kMagic[4] = {'V', 'B', 'P', '1'};
};

}  // namespace verbatim::host
