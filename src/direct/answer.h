// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "wire/headers/aeth.h"

namespace verbatim::direct {

/// What the peer's half makes of a request: what its answer would say on the wire.
enum class Answer : std::uint8_t {
  kDone,
  kLost,            // unreliable: it was not taken, and nobody hears of it
  kNotReady,        // no receive is posted
  kSilence,         // nobody is there, or it has failed: no answer at all
  kInvalidRequest,  // NAK 0x61
  kAccessRefused,   // NAK 0x62
  kOperationError,  // NAK 0x63
  kOwnerNeeded,     // only the peer itself gets at the memory
};

/// What a refusal is called here: the code that its NAK would have; none is silence.
[[nodiscard]] constexpr Answer answer_of(std::optional<wire::Syndrome::Nak> nak) noexcept {
  using Nak = wire::Syndrome::Nak;
  if (!nak) return Answer::kSilence;
  if (*nak == Nak::kRemoteAccess) return Answer::kAccessRefused;
  if (*nak == Nak::kRemoteOperation) return Answer::kOperationError;
  return Answer::kInvalidRequest;
}
/// The reverse; none for what is no refusal.
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
