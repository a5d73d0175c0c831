// SPDX-License-Identifier: Apache-2.0
#include "transport/post_rules.h"

namespace verbatim::transport {
namespace {

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

bool is_datagram(QpType type) noexcept {
  return type == QpType::kUd || type == QpType::kGsi || type == QpType::kSmi;
}

}  // namespace

Status check_post(QpType type, const SendRequest& request, std::uint32_t path_mtu) noexcept {
  if (!exists_on(type, request.opcode)) return Errc::kInvalidArgument;
  const std::uint64_t octets = memory::total_octets(request.list);
  const bool is_inline = has(request.flags, SendFlags::kInline);
  switch (request.opcode) {
    case SendOpcode::kRead:
      return is_inline ? Status(Errc::kInvalidArgument) : Status(Ok{});
    case SendOpcode::kCompareSwap:
    case SendOpcode::kFetchAdd:
      if (is_inline || octets != 8 || request.remote_address % 8 != 0) {
        return Errc::kInvalidArgument;
      }
      return Ok{};
    case SendOpcode::kAtomicWrite:
      if (octets != 8 || request.remote_address % 8 != 0) return Errc::kInvalidArgument;
      return Ok{};
    case SendOpcode::kFlush:
      return octets == 0 ? Status(Ok{}) : Status(Errc::kInvalidArgument);
    case SendOpcode::kSend:
    case SendOpcode::kSendImm:
      // A datagram is one packet: better refused here than lost on the way.
      if (is_datagram(type) && octets > path_mtu) return Errc::kInvalidArgument;
      return Ok{};
    case SendOpcode::kWrite:
    case SendOpcode::kWriteImm:
    case SendOpcode::kSendInvalidate:
    case SendOpcode::kLocalInvalidate:
    case SendOpcode::kBindWindow:
      return Ok{};
  }
  return Errc::kInvalidArgument;
}

}  // namespace verbatim::transport
