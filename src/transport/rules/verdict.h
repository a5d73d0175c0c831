// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "transport/queues/work.h"
#include "transport/reason.h"
#include "wire/headers/aeth.h"

namespace verbatim::transport {

/// A responder's decision on a request.
enum class Verdict : std::uint8_t {
  kAccepted,
  kNotReady,           // no receive is posted: the requester tries again
  kInvalidRequest,     // this queue pair does not take such a request
  kTooLong,            // the message is longer than its receive
  kAccessRefused,      // the key does not allow it
  kInvalidateRefused,  // a SEND names a key that it may not invalidate
  kPlacementFailed,    // the list of the receive is wrong, or memory is no longer mapped
  kOverrun,            // the completion queue has no place for the receive's completion
};

/// A verdict and its reason.
struct Judgement {
  Verdict verdict = Verdict::kAccepted;
  Reason reason = Reason::kNone;
  [[nodiscard]] constexpr bool accepted() const noexcept { return verdict == Verdict::kAccepted; }
};

/// The consequences of a verdict that is neither kAccepted nor kNotReady (IBA Vol 1, 9.9 and 11.6).
/// On a reliable connection the half ends, and the requester gets a NAK. The receive that was taken
/// completes with an error; if none was taken, an event is raised.
struct Consequence {
  using Nak = wire::Syndrome::Nak;
  std::optional<Nak> nak;                                     // none: no answer
  WcStatus receive_status = WcStatus::kRemoteInvalidRequest;  // of the receive
  QpEvent event = QpEvent::kRequestError;
  bool ends_unreliable = false;  // UC: the queue pair ends; otherwise the message is lost silently
};

[[nodiscard]] constexpr Consequence consequence_of(Verdict verdict) noexcept {
  using Nak = Consequence::Nak;
  switch (verdict) {
    case Verdict::kTooLong:
      return {.nak = Nak::kInvalidRequest, .receive_status = WcStatus::kLocalLength};
    case Verdict::kAccessRefused:
      return {.nak = Nak::kRemoteAccess,
              .receive_status = WcStatus::kLocalAccess,  // of a WRITE with immediate (11.6.2)
              .event = QpEvent::kAccessError};
    case Verdict::kInvalidateRefused:
      return {.nak = Nak::kRemoteAccess, .event = QpEvent::kAccessError};
    case Verdict::kPlacementFailed:
      return {.nak = Nak::kRemoteOperation,
              .receive_status = WcStatus::kLocalProtection,
              .event = QpEvent::kFatal,
              .ends_unreliable = true};
    case Verdict::kOverrun:
      return {.nak = std::nullopt, .event = QpEvent::kFatal, .ends_unreliable = true};
    case Verdict::kInvalidRequest:
    case Verdict::kAccepted:
    case Verdict::kNotReady:
      break;
  }
  return {.nak = Nak::kInvalidRequest};
}

/// The status of a request that the responder has refused with this code (11.6.2). None for a gap
/// in the sequence: the requester goes back and sends again.
[[nodiscard]] constexpr std::optional<WcStatus> requester_status(wire::Syndrome::Nak nak) noexcept {
  using Nak = wire::Syndrome::Nak;
  switch (nak) {
    case Nak::kInvalidRequest:
    case Nak::kInvalidRd:
      return WcStatus::kRemoteInvalidRequest;
    case Nak::kRemoteAccess:
      return WcStatus::kRemoteAccess;
    case Nak::kRemoteOperation:
      return WcStatus::kRemoteOperation;
    case Nak::kSequence:
      break;
  }
  return std::nullopt;
}

}  // namespace verbatim::transport
