// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/expected.h"
#include "wire/cm/cm_ids.h"
#include "wire/cm/cm_layout.h"
#include "wire/cm/cm_path.h"
#include "wire/headers/ids.h"
#include "wire/headers/mad.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// Load alternate path: offers a second path for an established connection (IBA Vol 1, 12.8.1).
/// Linux ignores this message and its answer on RoCE.
struct CmLap {
  static constexpr CmAttribute kAttribute = CmAttribute::kLap;
  static constexpr std::size_t kSize = Mad::kSize;
  static constexpr std::size_t kPrivateOctets = 168;
  TransactionId transaction{};
  CommId local_comm_id{};
  CommId remote_comm_id{};
  QpNumber remote_qpn{};
  std::uint8_t remote_cm_response_timeout = 0;  // 5 bits: 4.096 us << code
  CmPath alternate{};
  std::array<std::byte, kPrivateOctets> private_data{};
  friend bool operator==(const CmLap&, const CmLap&) noexcept = default;

  static Expected<CmLap, WireError> parse(const MadView& mad) noexcept;
  void emit(std::span<std::byte, kSize> to) const noexcept;

  /// The table of 12.8.1; the path is in another order than in a CmReq.
  template <typename At, typename Self>
  static void lay_out(At& at, Self& lap) noexcept {
    at(CmBits<0, 0, 32>{}, lap.local_comm_id);
    at(CmBits<4, 0, 32>{}, lap.remote_comm_id);
    at(CmBits<12, 0, 24>{}, lap.remote_qpn);
    at(CmBits<15, 0, 5>{}, lap.remote_cm_response_timeout);
    at(CmBits<20, 0, 16>{}, lap.alternate.local_lid);
    at(CmBits<22, 0, 16>{}, lap.alternate.remote_lid);
    at(CmOctets<24, 16>{}, lap.alternate.local_gid);
    at(CmOctets<40, 16>{}, lap.alternate.remote_gid);
    at(CmBits<56, 0, 20>{}, lap.alternate.flow_label);
    at(CmBits<59, 0, 8>{}, lap.alternate.traffic_class);
    at(CmBits<60, 0, 8>{}, lap.alternate.hop_limit);
    at(CmBits<61, 2, 6>{}, lap.alternate.packet_rate);
    at(CmBits<62, 0, 4>{}, lap.alternate.level);
    at(CmBits<62, 4, 1>{}, lap.alternate.subnet_local);
    at(CmBits<63, 0, 5>{}, lap.alternate.local_ack_timeout);
    at(CmOctets<64, kPrivateOctets>{}, lap.private_data);
  }
};

/// The result of a CmLap (12.8.2).
enum class AprStatus : std::uint8_t {
  kLoaded = 0,
  kInvalidCommId = 1,
  kNotSupported = 2,
  kRejected = 3,
  kRedirect = 4,
  kIsCurrent = 5,
  kInvalidQpn = 6,
  kInvalidLid = 7,
  kInvalidGid = 8,
  kInvalidFlowLabel = 9,
  kInvalidTrafficClass = 10,
  kInvalidHopLimit = 11,
  kInvalidPacketRate = 12,
  kInvalidServiceLevel = 13,
};

[[nodiscard]] constexpr const char* name_of(AprStatus status) noexcept {
  switch (status) {
    case AprStatus::kLoaded:
      return "loaded";
    case AprStatus::kInvalidCommId:
      return "invalid communication ID";
    case AprStatus::kNotSupported:
      return "not supported";
    case AprStatus::kRejected:
      return "rejected";
    case AprStatus::kRedirect:
      return "redirect";
    case AprStatus::kIsCurrent:
      return "is the current path";
    case AprStatus::kInvalidQpn:
      return "invalid QP or EEC number";
    case AprStatus::kInvalidLid:
      return "invalid LID";
    case AprStatus::kInvalidGid:
      return "invalid GID";
    case AprStatus::kInvalidFlowLabel:
      return "invalid flow label";
    case AprStatus::kInvalidTrafficClass:
      return "invalid traffic class";
    case AprStatus::kInvalidHopLimit:
      return "invalid hop limit";
    case AprStatus::kInvalidPacketRate:
      return "invalid packet rate";
    case AprStatus::kInvalidServiceLevel:
      return "invalid service level";
  }
  return "?";
}

/// Alternate path response: the answer to a CmLap (12.8.2).
struct CmApr {
  static constexpr CmAttribute kAttribute = CmAttribute::kApr;
  static constexpr std::size_t kSize = Mad::kSize;
  static constexpr std::size_t kInfoOctetsMax = 72;
  static constexpr std::size_t kPrivateOctets = 148;
  TransactionId transaction{};  // the CmLap's
  CommId local_comm_id{};
  CommId remote_comm_id{};
  AprStatus status{};
  std::uint8_t info_octets = 0;  // a peer may claim more than there are
  std::array<std::byte, kInfoOctetsMax> info_field{};
  std::array<std::byte, kPrivateOctets> private_data{};
  friend bool operator==(const CmApr&, const CmApr&) noexcept = default;

  /// Additional information, as the status defines it.
  [[nodiscard]] std::span<const std::byte> info() const noexcept {
    return std::span(info_field).first(std::min<std::size_t>(info_octets, kInfoOctetsMax));
  }

  static Expected<CmApr, WireError> parse(const MadView& mad) noexcept;
  void emit(std::span<std::byte, kSize> to) const noexcept;

  /// The table of 12.8.2.
  template <typename At, typename Self>
  static void lay_out(At& at, Self& apr) noexcept {
    at(CmBits<0, 0, 32>{}, apr.local_comm_id);
    at(CmBits<4, 0, 32>{}, apr.remote_comm_id);
    at(CmBits<8, 0, 8>{}, apr.info_octets);
    at(CmBits<9, 0, 8>{}, apr.status);
    at(CmOctets<12, kInfoOctetsMax>{}, apr.info_field);
    at(CmOctets<84, kPrivateOctets>{}, apr.private_data);
  }
};

}  // namespace verbatim::wire
