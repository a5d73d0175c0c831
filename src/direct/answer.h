// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "wire/headers/aeth.h"

namespace verbatim::direct {

/// The outcome of a request in the peer's half: what the response would be on the wire.
enum class Answer : std::uint8_t {
  kDone,
  kLost,            // unreliable: the half has dropped it, and no response reports that
  kNotReady,        // no receive is posted
  kSilence,         // the half takes no requests, or has failed: no response at all
  kInvalidRequest,  // NAK 0x61
  kAccessRefused,   // NAK 0x62
  kOperationError,  // NAK 0x63
  kOwnerNeeded,     // only the owner of the memory can reach it
};

/// The answer for a refusal with this NAK; kSilence without a NAK.
[[nodiscard]] constexpr Answer answer_of(std::optional<wire::Syndrome::Nak> nak) noexcept {
  using Nak = wire::Syndrome::Nak;
  if (!nak) return Answer::kSilence;
  if (*nak == Nak::kRemoteAccess) return Answer::kAccessRefused;
  if (*nak == Nak::kRemoteOperation) return Answer::kOperationError;
  return Answer::kInvalidRequest;
}
/// The reverse; none for an answer that is no refusal.
[[nodiscard]] constexpr std::optional<wire::Syndrome::Nak> nak_of(Answer answer) noexcept {
  using Nak = wire::Syndrome::Nak;
  switch (answer) {
    case Answer::kInvalidRequest:
      return Nak::kInvalidRequest;
    case Answer::kAccessRefused:
      return Nak::kRemoteAccess;
    case Answer::kOperationError:
      return Nak::kRemoteOperation;
    case Answer::kDone:
    case Answer::kLost:
    case Answer::kNotReady:
    case Answer::kSilence:
    case Answer::kOwnerNeeded:
      break;
  }
  return std::nullopt;
}

}  // namespace verbatim::direct
