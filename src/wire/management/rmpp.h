// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "wire/headers/mad.h"

namespace verbatim::wire {

/// What a datagram of the reliable multi-packet transaction protocol is (IBA Vol 1, 13.6.2.1).
enum class RmppType : std::uint8_t { kNone = 0, kData = 1, kAck = 2, kStop = 3, kAbort = 4 };

/// Why a message ends early (13.6.2.2): in a STOP or ABORT, 0 in all others.
enum class RmppStatus : std::uint8_t {
  kNormal = 0,
  kResourcesExhausted = 1,  // the only one of a STOP; the others are of ABORTs
  kTotalTimeTooLong = 118,
  kBadLength = 119,   // the length of the last segment contradicts itself
  kBadSegment = 120,  // the first segment without the flag, or the flag elsewhere
  kBadType = 121,
  kWindowTooSmall = 122,  // the end of the window is before the acknowledged segment
  kSegmentTooBig = 123,   // an acknowledgement of what was not sent
  kBadStatus = 124,
  kUnsupportedVersion = 125,
  kTooManyRetries = 126,
  kUnspecified = 127,
};
inline constexpr std::uint8_t kRmppAbortMin = 118;  // the statuses that an ABORT may have
inline constexpr std::uint8_t kRmppAbortMax = 127;

/// Which part of the datagram is common to all segments of a message: the datagram's header, the
/// RMPP header and the header of the class. 24 for a class without RMPP.
[[nodiscard]] constexpr std::size_t header_octets_of(MgmtClass mgmt_class) noexcept {
  const auto number = static_cast<std::uint8_t>(mgmt_class);
  if (mgmt_class == MgmtClass::kSubnetAdministration) return 56;
  if (number == 0x06 || number == 0x10 || number == 0x12) return 64;  // devices, boards
  if (number >= 0x30 && number <= 0x4f) return 40;                    // vendors with an OUI
  return MadHeader::kSize;
}
/// Whether datagrams of the class have the RMPP header (13.6.1).
[[nodiscard]] constexpr bool has_rmpp(MgmtClass mgmt_class) noexcept {
  return header_octets_of(mgmt_class) != MadHeader::kSize;
}
/// The classes of vendors whose datagrams say in octets 37 to 39 which vendor (16.5.2).
[[nodiscard]] constexpr bool has_oui(MgmtClass mgmt_class) noexcept {
  const auto number = static_cast<std::uint8_t>(mgmt_class);
  return number >= 0x30 && number <= 0x4f;
}

/// The header of RMPP, octets 24 to 35 of a datagram (13.6.2).
///
///     24 version | 25 type | 26 response time:5 first:1 (bit 2: last, 1: first, 0: active)
///     27 status | 28..31 segment | 32..35 payload length (data), last segment of the window (ack)
struct Rmpp {
  static constexpr std::size_t kOffset = MadHeader::kSize;
  static constexpr std::size_t kSize = 12;
  static constexpr std::size_t kEnd = kOffset + kSize;
  static constexpr std::uint8_t kVersion = 1;
  /// What the length of a segment counts: all octets after this header.
  static constexpr std::size_t kSegmentOctets = Mad::kSize - kEnd;
  static constexpr std::uint8_t kNoResponseTime = 31;
  RmppType type = RmppType::kData;
  bool is_active = true;  // without it the datagram is no part of a message, and no header follows
  bool is_first = false;
  bool is_last = false;
  std::uint8_t response_time = kNoResponseTime;  // 5 bits
  RmppStatus status = RmppStatus::kNormal;
  std::uint32_t segment = 0;  // of data: from 1 on. Of an acknowledgement: the last one in order
  std::uint32_t extent = 0;   // see the figure
  friend bool operator==(const Rmpp&, const Rmpp&) noexcept = default;

  void emit(std::span<std::byte, Mad::kSize> to) const noexcept {
    store_be<std::uint8_t, 24>(to, kVersion);
    store_be<std::uint8_t, 25>(to, static_cast<std::uint8_t>(type));
    store_be<std::uint8_t, 26>(to,
                               static_cast<std::uint8_t>((response_time << 3) | (is_last ? 4 : 0) |
                                                         (is_first ? 2 : 0) | (is_active ? 1 : 0)));
    store_be<std::uint8_t, 27>(to, static_cast<std::uint8_t>(status));
    store_be<std::uint32_t, 28>(to, segment);
    store_be<std::uint32_t, 32>(to, extent);
  }
};

/// The header of RMPP in a datagram that arrived. No accessor checks its value. Borrows the octets.
class RmppView {
 public:
  explicit RmppView(const MadView& mad) noexcept : octets_(mad.octets()) {}
  explicit RmppView(std::span<const std::byte, Mad::kSize> octets) noexcept : octets_(octets) {}

  [[nodiscard]] std::uint8_t version() const noexcept { return octet<24>(); }
  [[nodiscard]] RmppType type() const noexcept { return RmppType{octet<25>()}; }
  [[nodiscard]] bool is_active() const noexcept { return (octet<26>() & 1) != 0; }
  [[nodiscard]] bool is_first() const noexcept { return (octet<26>() & 2) != 0; }
  [[nodiscard]] bool is_last() const noexcept { return (octet<26>() & 4) != 0; }
  [[nodiscard]] std::uint8_t response_time() const noexcept {
    return static_cast<std::uint8_t>(octet<26>() >> 3);
  }
  [[nodiscard]] RmppStatus status() const noexcept { return RmppStatus{octet<27>()}; }
  [[nodiscard]] std::uint32_t segment() const noexcept {
    return load_be<std::uint32_t, 28>(octets_);
  }
  [[nodiscard]] std::uint32_t extent() const noexcept {
    return load_be<std::uint32_t, 32>(octets_);
  }

  [[nodiscard]] Rmpp value() const noexcept {
    return {.type = type(),
            .is_active = is_active(),
            .is_first = is_first(),
            .is_last = is_last(),
            .response_time = response_time(),
            .status = status(),
            .segment = segment(),
            .extent = extent()};
  }

 private:
  template <std::size_t kAt>
  [[nodiscard]] std::uint8_t octet() const noexcept {
    return load_be<std::uint8_t, kAt>(octets_);
  }
  std::span<const std::byte, Mad::kSize> octets_;  // valid as long as the datagram is
};

}  // namespace verbatim::wire
