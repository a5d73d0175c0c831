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
#include "wire/cm/reject_reason.h"
#include "wire/headers/mad.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// Refusal of a request, of a reply, or of a communication in another state (IBA Vol 1, 12.6.7).
struct CmRej {
  static constexpr CmAttribute kAttribute = CmAttribute::kRej;
  static constexpr std::size_t kSize = Mad::kSize;
  static constexpr std::size_t kInfoOctetsMax = 72;
  static constexpr std::size_t kPrivateOctets = 148;
  enum class Rejected : std::uint8_t { kReq = 0, kRep = 1, kOther = 2 };
  TransactionId transaction{};  // the request's
  CommId local_comm_id{};       // zero if the sender has given none
  CommId remote_comm_id{};
  Rejected rejected = Rejected::kReq;
  RejectReason reason{};
  std::uint8_t info_octets = 0;  // 7 bits: a peer may claim more than there are
  std::array<std::byte, kInfoOctetsMax> info_field{};
  std::array<std::byte, kPrivateOctets> private_data{};
  friend bool operator==(const CmRej&, const CmRej&) noexcept = default;

  /// Additional reject information, such as a value that would be acceptable (12.6.7.2).
  [[nodiscard]] std::span<const std::byte> info() const noexcept {
    return std::span(info_field).first(std::min<std::size_t>(info_octets, kInfoOctetsMax));
  }

  static Expected<CmRej, WireError> parse(const MadView& mad) noexcept;
  void emit(std::span<std::byte, kSize> to) const noexcept;

  /// The table of 12.6.7.
  template <typename At, typename Self>
  static void lay_out(At& at, Self& rej) noexcept {
    at(CmBits<0, 0, 32>{}, rej.local_comm_id);
    at(CmBits<4, 0, 32>{}, rej.remote_comm_id);
    at(CmBits<8, 0, 2>{}, rej.rejected);
    at(CmBits<9, 0, 7>{}, rej.info_octets);
    at(CmBits<10, 0, 16>{}, rej.reason);
    at(CmOctets<12, kInfoOctetsMax>{}, rej.info_field);
    at(CmOctets<84, kPrivateOctets>{}, rej.private_data);
  }
};

}  // namespace verbatim::wire
