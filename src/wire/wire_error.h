// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbatim::wire {

/// Why octets that arrived are not a packet. Each is counted; none is ever answered.
enum class WireError : std::uint8_t {
  kTruncated,          // shorter than the headers it announces
  kBadVersion,         // a version field that is not ours
  kUnknownOpcode,      // BTH opcode that no table lists
  kBadPadding,         // pad octets that are not there, or a payload that is not a multiple of four
  kUnexpectedPayload,  // octets after a header that ends its packet
  kBadLength,          // a length field that contradicts the octets
  kBadChecksum,        // ICRC, VCRC or IPv4 header checksum
  kNotRoce,            // an IP datagram that is not UDP to port 4791
  kBadClass,           // a MAD of another management class
  kBadAttribute,       // a MAD attribute that names no message
  kNotTransport,       // a native packet with something else than a BTH inside
};
inline constexpr std::size_t kWireErrorCount = 11;

[[nodiscard]] constexpr const char* name_of(WireError error) noexcept {
  switch (error) {
    case WireError::kTruncated:
      return "truncated";
    case WireError::kBadVersion:
      return "bad version";
    case WireError::kUnknownOpcode:
      return "unknown opcode";
    case WireError::kBadPadding:
      return "bad padding";
    case WireError::kUnexpectedPayload:
      return "unexpected payload";
    case WireError::kBadLength:
      return "bad length";
    case WireError::kBadChecksum:
      return "bad checksum";
    case WireError::kNotRoce:
      return "not RoCEv2";
    case WireError::kBadClass:
      return "bad management class";
    case WireError::kBadAttribute:
      return "bad attribute";
    case WireError::kNotTransport:
      return "not an IBA transport packet";
  }
  return "?";
}

}  // namespace verbatim::wire
