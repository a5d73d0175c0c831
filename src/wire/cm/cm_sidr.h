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
#include "wire/cm/service_id.h"
#include "wire/headers/ids.h"
#include "wire/headers/mad.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// Service ID resolution request: asks which queue pair takes datagrams for a service (IBA Vol 1,
/// 12.11.1).
struct CmSidrReq {
  static constexpr CmAttribute kAttribute = CmAttribute::kSidrReq;
  static constexpr std::size_t kSize = Mad::kSize;
  static constexpr std::size_t kPrivateOctets = 216;
  TransactionId transaction{};
  CommId request_id{};
  PKey pkey = PKey::kDefault;
  ServiceId service_id{};
  std::array<std::byte, kPrivateOctets> private_data{};
  friend bool operator==(const CmSidrReq&, const CmSidrReq&) noexcept = default;

  static Expected<CmSidrReq, WireError> parse(const MadView& mad) noexcept;
  void emit(std::span<std::byte, kSize> to) const noexcept;

  /// The table of 12.11.1.
  template <typename At, typename Self>
  static void lay_out(At& at, Self& req) noexcept {
    at(CmBits<0, 0, 32>{}, req.request_id);
    at(CmBits<4, 0, 16>{}, req.pkey);
    at(CmBits<8, 0, 64>{}, req.service_id);
    at(CmOctets<16, kPrivateOctets>{}, req.private_data);
  }
};

/// The result of a service ID resolution (12.11.2).
enum class SidrStatus : std::uint8_t {
  kValid = 0,
  kServiceNotSupported = 1,
  kRejected = 2,
  kNoQp = 3,
  kRedirect = 4,
  kVersionNotSupported = 5,
};

[[nodiscard]] constexpr const char* name_of(SidrStatus status) noexcept {
  switch (status) {
    case SidrStatus::kValid:
      return "valid";
    case SidrStatus::kServiceNotSupported:
      return "service ID not supported";
    case SidrStatus::kRejected:
      return "rejected by the service";
    case SidrStatus::kNoQp:
      return "no QP available";
    case SidrStatus::kRedirect:
      return "redirect";
    case SidrStatus::kVersionNotSupported:
      return "version not supported";
  }
  return "?";
}

/// Service ID resolution response (12.11.2).
struct CmSidrRep {
  static constexpr CmAttribute kAttribute = CmAttribute::kSidrRep;
  static constexpr std::size_t kSize = Mad::kSize;
  static constexpr std::size_t kInfoOctetsMax = 72;
  static constexpr std::size_t kPrivateOctets = 136;
  TransactionId transaction{};  // the request's
  CommId request_id{};
  SidrStatus status{};
  Ece ece{};
  QpNumber qpn{};
  ServiceId service_id{};
  QKey qkey{};
  std::uint8_t info_octets = 0;  // a peer may claim more than there are
  std::array<std::byte, kInfoOctetsMax> info_field{};
  std::array<std::byte, kPrivateOctets> private_data{};
  friend bool operator==(const CmSidrRep&, const CmSidrRep&) noexcept = default;

  /// Additional information, as the status defines it.
  [[nodiscard]] std::span<const std::byte> info() const noexcept {
    return std::span(info_field).first(std::min<std::size_t>(info_octets, kInfoOctetsMax));
  }

  static Expected<CmSidrRep, WireError> parse(const MadView& mad) noexcept;
  void emit(std::span<std::byte, kSize> to) const noexcept;

  /// The table of 12.11.2. The vendor ID is split into two pieces.
  template <typename At, typename Self>
  static void lay_out(At& at, Self& rep) noexcept {
    at(CmBits<0, 0, 32>{}, rep.request_id);
    at(CmBits<4, 0, 8>{}, rep.status);
    at(CmBits<5, 0, 8>{}, rep.info_octets);
    at(CmBits<6, 0, 16, 8>{}, rep.ece.vendor_id);
    at(CmBits<8, 0, 24>{}, rep.qpn);
    at(CmBits<11, 0, 8, 0>{}, rep.ece.vendor_id);
    at(CmBits<12, 0, 64>{}, rep.service_id);
    at(CmBits<20, 0, 32>{}, rep.qkey);
    at(CmOctets<24, kInfoOctetsMax>{}, rep.info_field);
    at(CmOctets<96, kPrivateOctets>{}, rep.private_data);
  }
};

}  // namespace verbatim::wire
