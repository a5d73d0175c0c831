// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"

namespace verbatim::wire {

/// The header of a record of the Extensible Record Format, with which native InfiniBand packets
/// stand in captures. Tools read the packets themselves by this type only, and other programs that
/// capture them write it, too.
///
///     0..7 time, least significant octet first: 2^-32 seconds since 1970
///     8 type | 9 interface:2 flags | 10..11 octets of the record | 12..13 lost | 14..15 of the
///     packet
struct ErfHeader {
  static constexpr std::size_t kSize = 16;
  static constexpr std::uint8_t kInfiniband = 21;
  std::uint64_t unix_nanoseconds = 0;  // since 1970
  std::uint8_t interface = 0;          // 0 to 3
  bool has_error = false;              // the packet arrived with an error
  std::uint16_t packet_octets = 0;

  void emit(std::span<std::byte, kSize> to) const noexcept {
    constexpr std::uint64_t kSecond = 1'000'000'000;
    const std::uint64_t fraction = ((unix_nanoseconds % kSecond) << 32) / kSecond;
    const std::uint64_t time = (unix_nanoseconds / kSecond) << 32 | fraction;
    store_be<std::uint64_t, 0>(to, __builtin_bswap64(time));
    store_be<std::uint8_t, 8>(to, kInfiniband);
    store_be<std::uint8_t, 9>(to, static_cast<std::uint8_t>(kVaryingLength | (interface & 3U) |
                                                            (has_error ? kError : 0U)));
    store_be<std::uint16_t, 10>(to, static_cast<std::uint16_t>(kSize + packet_octets));
    store_be<std::uint16_t, 12>(to, 0);
    store_be<std::uint16_t, 14>(to, packet_octets);
  }

 private:
  static constexpr unsigned kVaryingLength = 0x04;
  static constexpr unsigned kError = 0x10;
};

}  // namespace verbatim::wire
