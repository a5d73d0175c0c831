// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/expected.h"
#include "wire/cm/cm_ids.h"
#include "wire/cm/cm_layout.h"
#include "wire/headers/mad.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// Message receipt acknowledgement: the sender needs more time to answer (IBA Vol 1, 12.6.6).
struct CmMra {
  static constexpr CmAttribute kAttribute = CmAttribute::kMra;
  static constexpr std::size_t kSize = Mad::kSize;
  static constexpr std::size_t kPrivateOctets = 222;
  enum class Received : std::uint8_t { kReq = 0, kRep = 1, kLap = 2 };
  TransactionId transaction{};  // of the message that was received
  CommId local_comm_id{};
  CommId remote_comm_id{};
  Received received = Received::kReq;
  std::uint8_t service_timeout = 0;  // 5 bits: 4.096 us << code
  std::array<std::byte, kPrivateOctets> private_data{};
  friend bool operator==(const CmMra&, const CmMra&) noexcept = default;

  static Expected<CmMra, WireError> parse(const MadView& mad) noexcept;
  void emit(std::span<std::byte, kSize> to) const noexcept;

  /// The table of 12.6.6.
  template <typename At, typename Self>
  static void lay_out(At& at, Self& mra) noexcept {
    at(CmBits<0, 0, 32>{}, mra.local_comm_id);
    at(CmBits<4, 0, 32>{}, mra.remote_comm_id);
    at(CmBits<8, 0, 2>{}, mra.received);
    at(CmBits<9, 0, 5>{}, mra.service_timeout);
    at(CmOctets<10, kPrivateOctets>{}, mra.private_data);
  }
};

}  // namespace verbatim::wire
