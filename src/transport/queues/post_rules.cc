// SPDX-License-Identifier: Apache-2.0
#include "transport/queues/post_rules.h"

namespace verbatim::transport {
namespace {

/// Whether queue pairs of this type have a send queue.
bool has_send_queue(QpType type) noexcept {
  switch (type) {
    case QpType::kSmi:
    case QpType::kGsi:
    case QpType::kRc:
    case QpType::kUc:
    case QpType::kUd:
    case QpType::kXrcInitiator:
      return true;
    case QpType::kRawPacket:
    case QpType::kXrcTarget:
      return false;
  }
  return false;
}

bool exists_on(QpType type, SendOpcode opcode) noexcept {
  switch (type) {
    case QpType::kRc:
    case QpType::kXrcInitiator:
      return true;
    case QpType::kUc:
      switch (opcode) {
        case SendOpcode::kWrite:
        case SendOpcode::kWriteImm:
        case SendOpcode::kSend:
        case SendOpcode::kSendImm:
        case SendOpcode::kLocalInvalidate:
        case SendOpcode::kBindWindow:
          return true;
        case SendOpcode::kRead:
        case SendOpcode::kCompareSwap:
        case SendOpcode::kFetchAdd:
        case SendOpcode::kSendInvalidate:
        case SendOpcode::kFlush:
        case SendOpcode::kAtomicWrite:
          return false;
      }
      return false;
    case QpType::kUd:
    case QpType::kSmi:
    case QpType::kGsi:
      return opcode == SendOpcode::kSend || opcode == SendOpcode::kSendImm;
    case QpType::kRawPacket:
    case QpType::kXrcTarget:
      return false;
  }
  return false;
}

}  // namespace

Expected<Flaw> check_post(QpType type, const SendRequest& request) noexcept {
  const std::uint64_t octets = memory::total_octets(request.list);
  const bool is_inline = has(request.flags, SendFlags::kInline);
  Flaw flaw;
  if (!has_send_queue(type)) return Errc::kInvalidArgument;
  switch (request.opcode) {
    case SendOpcode::kRead:
      if (is_inline) return Errc::kInvalidArgument;
      break;
    case SendOpcode::kCompareSwap:
    case SendOpcode::kFetchAdd:
      if (is_inline) return Errc::kInvalidArgument;
      if (octets != 8) flaw = {WcStatus::kLocalLength, Reason::kNotEight};
      break;
    case SendOpcode::kAtomicWrite:
      if (octets != 8) flaw = {WcStatus::kLocalLength, Reason::kNotEight};
      break;
    case SendOpcode::kFlush:
      if (octets != 0) return Errc::kInvalidArgument;
      break;
    case SendOpcode::kSend:  // UnreliableSender checks the length of a datagram
    case SendOpcode::kSendImm:
    case SendOpcode::kWrite:
    case SendOpcode::kWriteImm:
    case SendOpcode::kSendInvalidate:
    case SendOpcode::kLocalInvalidate:
    case SendOpcode::kBindWindow:
      break;
    default:
      return Errc::kInvalidArgument;
  }
  if (request.is_foreign_path) flaw = {WcStatus::kLocalQpOperation, Reason::kForeignAddress};
  if (!exists_on(type, request.opcode)) {
    flaw = {WcStatus::kLocalQpOperation, Reason::kNotOfThisService};
  }
  return flaw;
}

}  // namespace verbatim::transport
