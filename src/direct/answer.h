// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

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

}  // namespace verbatim::direct
