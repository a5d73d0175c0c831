// SPDX-License-Identifier: Apache-2.0
#include "cm/verdict.h"

namespace verbatim::cm {

const char* describe(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::kHandled:
      return "handled";
    case Verdict::kDuplicate:
      return "duplicate";
    case Verdict::kAnswered:
      return "answered for an unknown communication";
    case Verdict::kMalformed:
      return "malformed datagram";
    case Verdict::kNotCm:
      return "not a message of the communication manager";
    case Verdict::kUnknownId:
      return "unknown communication ID";
    case Verdict::kWrongPeer:
      return "not from the peer's address";
    case Verdict::kWrongRemoteId:
      return "not the peer's communication ID";
    case Verdict::kWrongState:
      return "not expected in this state";
    case Verdict::kWrongQpn:
      return "not the communication's queue pair";
    case Verdict::kNoListener:
      return "no listener for the service";
    case Verdict::kInvalidRequest:
      return "a request for something that is not supported";
    case Verdict::kStaleConnection:
      return "the peer's queue pair is still connected here";
    case Verdict::kBacklogFull:
      return "the listener's backlog is full";
    case Verdict::kNoRoom:
      return "too many communications";
  }
  return "?";
}

}  // namespace verbatim::cm
