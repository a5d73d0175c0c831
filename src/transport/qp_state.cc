// SPDX-License-Identifier: Apache-2.0
#include "transport/qp_state.h"

#include <array>

namespace verbatim::transport {
namespace {

/// A set of service types: bit n stands for the type with value n.
using Types = std::uint16_t;

constexpr Types only(QpType type) noexcept {
  return static_cast<Types>(1U << static_cast<unsigned>(type));
}
constexpr Types operator|(QpType a, QpType b) noexcept {
  return static_cast<Types>(only(a) | only(b));
}
constexpr Types operator|(Types a, QpType b) noexcept { return static_cast<Types>(a | only(b)); }

constexpr Types kXrc = QpType::kXrcInitiator | QpType::kXrcTarget;
constexpr Types kConnected = kXrc | QpType::kRc | QpType::kUc;
constexpr Types kManagement = QpType::kSmi | QpType::kGsi;
constexpr Types kDatagram = kManagement | QpType::kUd;
constexpr Types kAll = kConnected | kDatagram | only(QpType::kRawPacket);

struct Row {
  QpState from{};
  QpState to{};
  Types types = 0;
  QpMask required = QpMask::kNone;
  QpMask optional = QpMask::kNone;
};

/// docs/PROTOCOL.md, section 4, line by line. The moves to RESET and ERR are not in it.
constexpr auto rows() noexcept {
  using enum QpMask;
  using enum QpState;
  constexpr QpMask kConnectedPort = kPKeyIndex | kPort | kAccess;
  constexpr QpMask kDatagramPort = kPKeyIndex | kPort | kQKey;
  constexpr QpMask kPeer = kAddress | kPathMtu | kDestQp | kReceivePsn;
  constexpr QpMask kPeerExtras = kAlternatePath | kAccess | kPKeyIndex;
  constexpr QpMask kSending = kTimeout | kRetryCount | kRnrRetry | kSendPsn | kMaxReadAtomic;
  constexpr QpMask kRunning = kCurrentState | kAlternatePath | kAccess | kPathMigration;
  constexpr QpMask kDrained = kAddress | kAlternatePath | kAccess | kPKeyIndex | kPathMigration;
  return std::array{
      Row{kReset, kInit, kConnected, kConnectedPort, kNone},
      Row{kReset, kInit, only(QpType::kUd), kDatagramPort, kNone},
      Row{kReset, kInit, kManagement, kPKeyIndex | kQKey, kNone},
      Row{kReset, kInit, only(QpType::kRawPacket), kPort, kNone},

      Row{kInit, kInit, kConnected, kNone, kConnectedPort},
      Row{kInit, kInit, only(QpType::kUd), kNone, kDatagramPort},
      Row{kInit, kInit, kManagement, kNone, kPKeyIndex | kQKey},

      Row{kInit, kReadyToReceive, QpType::kRc | QpType::kXrcTarget,
          kPeer | kMaxDestReadAtomic | kMinRnrTimer, kPeerExtras},
      Row{kInit, kReadyToReceive, QpType::kUc | QpType::kXrcInitiator, kPeer, kPeerExtras},
      Row{kInit, kReadyToReceive, kDatagram, kNone, kPKeyIndex | kQKey},

      Row{kReadyToReceive, kReadyToSend, only(QpType::kRc), kSending, kRunning | kMinRnrTimer},
      Row{kReadyToReceive, kReadyToSend, only(QpType::kXrcInitiator), kSending, kRunning},
      Row{kReadyToReceive, kReadyToSend, only(QpType::kXrcTarget), kTimeout | kSendPsn,
          kRunning | kMinRnrTimer},
      Row{kReadyToReceive, kReadyToSend, only(QpType::kUc), kSendPsn, kRunning},
      Row{kReadyToReceive, kReadyToSend, kDatagram, kSendPsn, kCurrentState | kQKey},

      Row{kReadyToSend, kReadyToSend, QpType::kRc | QpType::kXrcTarget, kNone,
          kRunning | kMinRnrTimer},
      Row{kReadyToSend, kReadyToSend, QpType::kUc | QpType::kXrcInitiator, kNone, kRunning},
      Row{kReadyToSend, kReadyToSend, kDatagram, kNone, kCurrentState | kQKey},

      Row{kReadyToSend, kSendQueueDrained, kAll, kNone, kSqdNotify},

      Row{kSendQueueDrained, kReadyToSend, QpType::kRc | QpType::kXrcTarget, kNone,
          kRunning | kMinRnrTimer},
      Row{kSendQueueDrained, kReadyToSend, QpType::kUc | QpType::kXrcInitiator, kNone, kRunning},
      Row{kSendQueueDrained, kReadyToSend, kDatagram, kNone, kCurrentState | kQKey},

      Row{kSendQueueDrained, kSendQueueDrained, only(QpType::kRc), kNone,
          kDrained | kPort | kTimeout | kRetryCount | kRnrRetry | kMaxReadAtomic |
              kMaxDestReadAtomic | kMinRnrTimer},
      Row{kSendQueueDrained, kSendQueueDrained, only(QpType::kXrcInitiator), kNone,
          kDrained | kPort | kTimeout | kRetryCount | kRnrRetry | kMaxReadAtomic},
      Row{kSendQueueDrained, kSendQueueDrained, only(QpType::kXrcTarget), kNone,
          kDrained | kPort | kTimeout | kMaxDestReadAtomic | kMinRnrTimer},
      Row{kSendQueueDrained, kSendQueueDrained, only(QpType::kUc), kNone, kDrained},
      Row{kSendQueueDrained, kSendQueueDrained, kDatagram, kNone, kPKeyIndex | kQKey},

      Row{kSendQueueError, kReadyToSend, only(QpType::kUc), kNone, kCurrentState | kAccess},
      Row{kSendQueueError, kReadyToSend, kDatagram, kNone, kCurrentState | kQKey},
  };
}
constexpr auto kRows = rows();

/// Whether the table is consistent: each type has a transition at most once, no attribute is both
/// required and optional, the state itself is neither, and the current state is named only in
/// states that the queue pair may have left by itself.
constexpr bool is_well_formed() noexcept {
  for (const Row& row : kRows) {
    const bool current_state_is_known =
        row.from == QpState::kReset || row.from == QpState::kInit || row.from == QpState::kError;
    if (current_state_is_known && names(row.optional, QpMask::kCurrentState)) return false;
    if ((row.required & row.optional) != QpMask::kNone) return false;
    if (names(row.required | row.optional, QpMask::kState)) return false;
    for (const Row& other : kRows) {
      const bool same_transition = row.from == other.from && row.to == other.to;
      if (&row != &other && same_transition && (row.types & other.types) != 0) return false;
    }
  }
  return true;
}
static_assert(is_well_formed());

constexpr bool is_known(QpType type) noexcept {
  return static_cast<unsigned>(type) < 16 && (kAll & only(type)) != 0;
}
constexpr bool is_known(QpState state) noexcept {
  return static_cast<std::uint8_t>(state) < kQpStateCount;
}

}  // namespace

Transition transition(QpType type, QpState from, QpState to) noexcept {
  if (!is_known(type) || !is_known(from) || !is_known(to)) return {};
  if (to == QpState::kReset) return {.exists = true};
  if (to == QpState::kError) return {.exists = from != QpState::kReset};
  for (const Row& row : kRows) {
    if (row.from == from && row.to == to && (row.types & only(type)) != 0) {
      return {.exists = true, .required = row.required, .optional = row.optional};
    }
  }
  return {};
}

Status check_transition(QpType type, QpState from, QpState to, QpMask mask) noexcept {
  const Transition row = transition(type, from, to);
  if (!row.exists) return Errc::kInvalidArgument;
  if (!names(mask, row.required)) return Errc::kInvalidArgument;
  if (!names(row.required | row.optional | QpMask::kState, mask)) return Errc::kInvalidArgument;
  return Ok{};
}

bool takes_requests(QpState state) noexcept {
  switch (state) {
    case QpState::kReadyToReceive:
    case QpState::kReadyToSend:
    case QpState::kSendQueueDrained:
    case QpState::kSendQueueError:
      return true;
    case QpState::kReset:
    case QpState::kInit:
    case QpState::kError:
      return false;
  }
  return false;
}

}  // namespace verbatim::transport
