// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/expected.h"
#include "transport/qp_attributes.h"

namespace verbatim::transport {

/// The attributes of one transition of one service type (IBA Vol 1, 11.2.5.2, as Linux applies it).
struct Transition {
  bool exists = false;
  QpMask required = QpMask::kNone;
  QpMask optional = QpMask::kNone;
};

/// The row of the state table for one transition; kState itself is in neither mask.
[[nodiscard]] Transition transition(QpType type, QpState from, QpState to) noexcept;

/// Whether a modify from `from` to `to` that names `mask` is allowed: the transition exists, every
/// required attribute is named, and nothing that is neither required nor optional. kCurrentState
/// may only be named where the table lists it. kInvalidArgument otherwise.
[[nodiscard]] Status check_transition(QpType type, QpState from, QpState to, QpMask mask) noexcept;

/// Whether a queue pair in this state executes the requests that are posted to it.
[[nodiscard]] constexpr bool is_sending(QpState state) noexcept {
  return state == QpState::kReadyToSend || state == QpState::kSendQueueDrained;
}
/// Whether a queue pair in this state takes requests of its peer.
[[nodiscard]] bool takes_requests(QpState state) noexcept;

}  // namespace verbatim::transport
