// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace verbatim::wire {

/// The number that one end gives a communication (IBA Vol 1, 12.9.2); the messages of both ends
/// contain it. Zero is never given. In a SIDR request it identifies the request.
enum class CommId : std::uint32_t {};

/// Which CM message a management datagram carries (12.6).
enum class CmAttribute : std::uint16_t {
  kReq = 0x0010,
  kMra = 0x0011,
  kRej = 0x0012,
  kRep = 0x0013,
  kRtu = 0x0014,
  kDreq = 0x0015,
  kDrep = 0x0016,
  kSidrReq = 0x0017,
  kSidrRep = 0x0018,
  kLap = 0x0019,
  kApr = 0x001a,
};

[[nodiscard]] constexpr const char* name_of(CmAttribute attribute) noexcept {
  switch (attribute) {
    case CmAttribute::kReq:
      return "REQ";
    case CmAttribute::kMra:
      return "MRA";
    case CmAttribute::kRej:
      return "REJ";
    case CmAttribute::kRep:
      return "REP";
    case CmAttribute::kRtu:
      return "RTU";
    case CmAttribute::kDreq:
      return "DREQ";
    case CmAttribute::kDrep:
      return "DREP";
    case CmAttribute::kSidrReq:
      return "SIDR_REQ";
    case CmAttribute::kSidrRep:
      return "SIDR_REP";
    case CmAttribute::kLap:
      return "LAP";
    case CmAttribute::kApr:
      return "APR";
  }
  return "?";
}

/// The version of the management class that every message has.
inline constexpr std::uint8_t kCmClassVersion = 2;

/// Enhanced connection establishment: vendor-specific options that both ends agree on.
/// All zero when unused.
struct Ece {
  std::uint32_t vendor_id = 0;  // 24 bits
  std::uint32_t options = 0;    // the attribute modifier of the datagram
  friend constexpr bool operator==(const Ece&, const Ece&) noexcept = default;
};

}  // namespace verbatim::wire
