// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/expected.h"
#include "wire/cm/cm_ids.h"
#include "wire/cm/cm_layout.h"
#include "wire/headers/ids.h"
#include "wire/headers/mad.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// Request to end a connection (IBA Vol 1, 12.6.10).
struct CmDreq {
  static constexpr CmAttribute kAttribute = CmAttribute::kDreq;
  static constexpr std::size_t kSize = Mad::kSize;
  static constexpr std::size_t kPrivateOctets = 220;
  TransactionId transaction{};  // a new one
  CommId local_comm_id{};
  CommId remote_comm_id{};
  QpNumber remote_qpn{};  // the recipient's; another number is ignored
  std::array<std::byte, kPrivateOctets> private_data{};
  friend bool operator==(const CmDreq&, const CmDreq&) noexcept = default;

  static Expected<CmDreq, WireError> parse(const MadView& mad) noexcept;
  void emit(std::span<std::byte, kSize> to) const noexcept;

  /// The table of 12.6.10.
  template <typename At, typename Self>
  static void lay_out(At& at, Self& dreq) noexcept {
    at(CmBits<0, 0, 32>{}, dreq.local_comm_id);
    at(CmBits<4, 0, 32>{}, dreq.remote_comm_id);
    at(CmBits<8, 0, 24>{}, dreq.remote_qpn);
    at(CmOctets<12, kPrivateOctets>{}, dreq.private_data);
  }
};

/// Reply to a CmDreq: the sender has ended the connection too (12.6.11).
struct CmDrep {
  static constexpr CmAttribute kAttribute = CmAttribute::kDrep;
  static constexpr std::size_t kSize = Mad::kSize;
  static constexpr std::size_t kPrivateOctets = 224;
  TransactionId transaction{};  // the CmDreq's
  CommId local_comm_id{};
  CommId remote_comm_id{};
  std::array<std::byte, kPrivateOctets> private_data{};
  friend bool operator==(const CmDrep&, const CmDrep&) noexcept = default;

  static Expected<CmDrep, WireError> parse(const MadView& mad) noexcept;
  void emit(std::span<std::byte, kSize> to) const noexcept;

  /// The table of 12.6.11.
  template <typename At, typename Self>
  static void lay_out(At& at, Self& drep) noexcept {
    at(CmBits<0, 0, 32>{}, drep.local_comm_id);
    at(CmBits<4, 0, 32>{}, drep.remote_comm_id);
    at(CmOctets<8, kPrivateOctets>{}, drep.private_data);
  }
};

}  // namespace verbatim::wire
