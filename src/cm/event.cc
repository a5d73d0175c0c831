// SPDX-License-Identifier: Apache-2.0
#include "cm/event.h"

namespace verbatim::cm {

const char* name_of(AgentEventKind kind) noexcept {
  switch (kind) {
    case AgentEventKind::kConnectRequest:
      return "connect request";
    case AgentEventKind::kReply:
      return "reply";
    case AgentEventKind::kEstablished:
      return "established";
    case AgentEventKind::kRejected:
      return "rejected";
    case AgentEventKind::kUnreachable:
      return "unreachable";
    case AgentEventKind::kDisconnected:
      return "disconnected";
    case AgentEventKind::kTimewaitExit:
      return "timewait exit";
    case AgentEventKind::kDelayed:
      return "delayed";
    case AgentEventKind::kServiceRequest:
      return "service request";
    case AgentEventKind::kServiceReply:
      return "service reply";
    case AgentEventKind::kServiceUnreachable:
      return "service unreachable";
  }
  return "?";
}

}  // namespace verbatim::cm
