// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"

namespace verbatim::wire {

/// The checksum of IPv4, UDP and ICMP (RFC 1071): the complement of the one's complement sum of
/// 16-bit words. With an odd number of octets, the last one is the upper half of a word.
class InternetChecksum {
 public:
  /// Adds octets. Only the last call of a checksum may add an odd number.
  constexpr InternetChecksum& add(std::span<const std::byte> octets) noexcept {
    std::size_t i = 0;
    for (; i + 1 < octets.size(); i += 2) {
      add(static_cast<std::uint16_t>((std::to_integer<unsigned>(octets[i]) << 8) |
                                     std::to_integer<unsigned>(octets[i + 1])));
    }
    if (i < octets.size()) {
      add(static_cast<std::uint16_t>(std::to_integer<unsigned>(octets[i]) << 8));
    }
    return *this;
  }
  constexpr InternetChecksum& add(std::uint16_t word) noexcept {
    sum_ += word;
    return *this;
  }

  /// The value for the checksum field. Zero over octets that contain a right checksum.
  [[nodiscard]] constexpr std::uint16_t finish() const noexcept {
    std::uint64_t sum = sum_;
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum & 0xffff);
  }

 private:
  std::uint64_t sum_ = 0;  // carries not yet folded in; 2^48 words until it could wrap
};

}  // namespace verbatim::wire
