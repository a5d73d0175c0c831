// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/expected.h"
#include "wire/cm/cm_ids.h"
#include "wire/cm/cm_layout.h"
#include "wire/headers/guid.h"
#include "wire/headers/ids.h"
#include "wire/headers/mad.h"
#include "wire/headers/psn.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// The passive side's decision about an alternate path (IBA Vol 1, 12.6.8.7).
enum class CmFailover : std::uint8_t { kAccepted = 0, kNotSupported = 1, kRejected = 2 };

/// Reply to a connection request: the passive side accepts (12.6.8). As in every message, "local"
/// is its sender.
struct CmRep {
  static constexpr CmAttribute kAttribute = CmAttribute::kRep;
  static constexpr std::size_t kSize = Mad::kSize;
  static constexpr std::size_t kPrivateOctets = 196;
  TransactionId transaction{};  // the request's
  CommId local_comm_id{};
  CommId remote_comm_id{};
  Ece ece{};
  QKey local_qkey{};  // datagrams only
  QpNumber local_qpn{};
  std::uint32_t local_eecn = 0;  // 24 bits; for an XRC target the number of its queue pair
  Psn starting_psn{};            // of the first packet that the *recipient* sends
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t target_ack_delay = 0;  // 5 bits: 4.096 us << code
  CmFailover failover = CmFailover::kAccepted;
  bool end_to_end_flow_control = false;
  std::uint8_t rnr_retry_count = 0;  // 3 bits; 7 means without limit
  bool uses_srq = false;
  Guid local_ca_guid{};
  std::array<std::byte, kPrivateOctets> private_data{};
  friend bool operator==(const CmRep&, const CmRep&) noexcept = default;

  static Expected<CmRep, WireError> parse(const MadView& mad) noexcept;
  void emit(std::span<std::byte, kSize> to) const noexcept;

  /// The table of 12.6.8. The vendor ID is split into three pieces.
  template <typename At, typename Self>
  static void lay_out(At& at, Self& rep) noexcept {
    at(CmBits<0, 0, 32>{}, rep.local_comm_id);
    at(CmBits<4, 0, 32>{}, rep.remote_comm_id);
    at(CmBits<8, 0, 32>{}, rep.local_qkey);
    at(CmBits<12, 0, 24>{}, rep.local_qpn);
    at(CmBits<15, 0, 8, 16>{}, rep.ece.vendor_id);
    at(CmBits<16, 0, 24>{}, rep.local_eecn);
    at(CmBits<19, 0, 8, 8>{}, rep.ece.vendor_id);
    at(CmBits<20, 0, 24>{}, rep.starting_psn);
    at(CmBits<23, 0, 8, 0>{}, rep.ece.vendor_id);
    at(CmBits<24, 0, 8>{}, rep.responder_resources);
    at(CmBits<25, 0, 8>{}, rep.initiator_depth);
    at(CmBits<26, 0, 5>{}, rep.target_ack_delay);
    at(CmBits<26, 5, 2>{}, rep.failover);
    at(CmBits<26, 7, 1>{}, rep.end_to_end_flow_control);
    at(CmBits<27, 0, 3>{}, rep.rnr_retry_count);
    at(CmBits<27, 3, 1>{}, rep.uses_srq);
    at(CmBits<28, 0, 64>{}, rep.local_ca_guid);
    at(CmOctets<36, kPrivateOctets>{}, rep.private_data);
  }
};

/// Ready to use: the active side has the reply and the connection is established (12.6.9).
struct CmRtu {
  static constexpr CmAttribute kAttribute = CmAttribute::kRtu;
  static constexpr std::size_t kSize = Mad::kSize;
  static constexpr std::size_t kPrivateOctets = 224;
  TransactionId transaction{};  // the request's
  CommId local_comm_id{};
  CommId remote_comm_id{};
  std::array<std::byte, kPrivateOctets> private_data{};
  friend bool operator==(const CmRtu&, const CmRtu&) noexcept = default;

  static Expected<CmRtu, WireError> parse(const MadView& mad) noexcept;
  void emit(std::span<std::byte, kSize> to) const noexcept;

  /// The table of 12.6.9.
  template <typename At, typename Self>
  static void lay_out(At& at, Self& rtu) noexcept {
    at(CmBits<0, 0, 32>{}, rtu.local_comm_id);
    at(CmBits<4, 0, 32>{}, rtu.remote_comm_id);
    at(CmOctets<8, kPrivateOctets>{}, rtu.private_data);
  }
};

}  // namespace verbatim::wire
