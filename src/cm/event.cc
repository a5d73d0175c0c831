// SPDX-License-Identifier: Apache-2.0
#include "cm/event.h"

namespace verbatim::cm {

const char* name_of(EventKind kind) noexcept {
  switch (kind) {
    case EventKind::kConnectRequest:
      return "connect request";
    case EventKind::kReply:
      return "reply";
    case EventKind::kEstablished:
      return "established";
    case EventKind::kRejected:
      return "rejected";
    case EventKind::kUnreachable:
      return "unreachable";
    case EventKind::kDisconnected:
      return "disconnected";
    case EventKind::kTimewaitExit:
      return "timewait exit";
    case EventKind::kDelayed:
      return "delayed";
    case EventKind::kServiceRequest:
      return "service request";
    case EventKind::kServiceReply:
      return "service reply";
    case EventKind::kServiceUnreachable:
      return "service unreachable";
  }
  return "?";
}

}  // namespace verbatim::cm
