// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/expected.h"
#include "memory/access.h"
#include "transport/qp_type.h"
#include "wire/headers/ids.h"
#include "wire/headers/psn.h"

namespace verbatim::transport {

/// States of a queue pair (IBA Vol 1, 10.3.1); the values are those of the verbs.
enum class QpState : std::uint8_t {
  kReset = 0,
  kInit = 1,
  kReadyToReceive = 2,
  kReadyToSend = 3,
  kSendQueueDrained = 4,
  kSendQueueError = 5,
  kError = 6,
};
inline constexpr std::uint8_t kQpStateCount = 7;

/// Which attributes a modify names; the values are those of the verbs.
enum class QpMask : std::uint32_t {
  kNone = 0,
  kState = 1U << 0,
  kCurrentState = 1U << 1,
  kSqdNotify = 1U << 2,
  kAccess = 1U << 3,
  kPKeyIndex = 1U << 4,
  kPort = 1U << 5,
  kQKey = 1U << 6,
  kAddress = 1U << 7,
  kPathMtu = 1U << 8,
  kTimeout = 1U << 9,
  kRetryCount = 1U << 10,
  kRnrRetry = 1U << 11,
  kReceivePsn = 1U << 12,
  kMaxReadAtomic = 1U << 13,
  kAlternatePath = 1U << 14,
  kMinRnrTimer = 1U << 15,
  kSendPsn = 1U << 16,
  kMaxDestReadAtomic = 1U << 17,
  kPathMigration = 1U << 18,
  kCapabilities = 1U << 19,
  kDestQp = 1U << 20,
  kRateLimit = 1U << 25,
};
[[nodiscard]] constexpr QpMask operator|(QpMask a, QpMask b) noexcept {
  return QpMask(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
[[nodiscard]] constexpr QpMask operator&(QpMask a, QpMask b) noexcept {
  return QpMask(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}
/// Whether `mask` names every attribute in `part`.
[[nodiscard]] constexpr bool names(QpMask mask, QpMask part) noexcept {
  return (mask & part) == part;
}

/// The attributes that the transport itself uses. Addresses, ports and the table of partitions
/// belong to the adapter, which gives the queue pair a resolved Path and the key that an index
/// names.
struct QpAttributes {
  QpState state = QpState::kReset;
  QpState current_state = QpState::kReset;        // kCurrentState: what the caller believes
  memory::Access access = memory::Access::kNone;  // operations that the peer may use
  wire::PKey pkey = wire::PKey::kDefault;         // kPKeyIndex: the entry that the index names
  std::uint16_t pkey_index = 0;                   // kPKeyIndex: in the port's table
  wire::QKey qkey{};
  wire::PathMtu path_mtu = wire::PathMtu::k1024;
  std::uint8_t timeout = 0;      // 4.096 us * 2^timeout; 0 is never, at most 31
  std::uint8_t retry_count = 0;  // 0..7
  std::uint8_t rnr_retry = 0;    // 0..7; 7 means no limit
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t max_read_atomic = 0;       // READs and atomics in flight as a requester
  std::uint8_t max_dest_read_atomic = 0;  // READs and atomics remembered as a responder
  bool sqd_notify = false;                // an event when the send queue has drained
  wire::Psn receive_psn{};
  wire::Psn send_psn{};
  wire::QpNumber dest_qp{};
};

/// kInvalidArgument when a value that `mask` names is one that no queue pair of a port with that
/// MTU can have.
[[nodiscard]] Status check_values(QpMask mask, const QpAttributes& wanted,
                                  wire::PathMtu port_mtu) noexcept;

/// Copies the values that `mask` names, except the two states.
void adopt(QpAttributes& into, QpMask mask, const QpAttributes& wanted) noexcept;

}  // namespace verbatim::transport
