// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbatim::wire {

/// Why octets that arrived are not a valid packet. Each kind is counted; none is answered.
enum class WireError : std::uint8_t {
  kTruncated,          // shorter than the headers it announces
  kBadVersion,         // a version field with another version
  kUnknownOpcode,      // a BTH opcode that is not defined
  kBadPadding,         // missing pad octets, or a payload that is not a multiple of four
  kUnexpectedPayload,  // octets after a header that must be the last one
  kBadLength,          // a length field that contradicts the octets
  kBadChecksum,        // ICRC, VCRC or IPv4 header checksum
  kNotRoce,            // an IP datagram that is not UDP to port 4791
  kBadClass,           // a MAD of another management class
  kBadAttribute,       // a MAD attribute that is no message
  kNotTransport,       // a native packet without a BTH
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
