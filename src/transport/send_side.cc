// SPDX-License-Identifier: Apache-2.0
#include "transport/send_side.h"

namespace verbatim::transport {
namespace {

WcOpcode wc_opcode_of(SendOpcode opcode) noexcept {
  switch (opcode) {
    case SendOpcode::kWrite:
    case SendOpcode::kWriteImm:
      return WcOpcode::kWrite;
    case SendOpcode::kSend:
    case SendOpcode::kSendImm:
    case SendOpcode::kSendInvalidate:
      return WcOpcode::kSend;
    case SendOpcode::kRead:
      return WcOpcode::kRead;
    case SendOpcode::kCompareSwap:
      return WcOpcode::kCompareSwap;
    case SendOpcode::kFetchAdd:
      return WcOpcode::kFetchAdd;
    case SendOpcode::kLocalInvalidate:
      return WcOpcode::kLocalInvalidate;
    case SendOpcode::kBindWindow:
      return WcOpcode::kBindWindow;
    case SendOpcode::kFlush:
      return WcOpcode::kFlush;
    case SendOpcode::kAtomicWrite:
      return WcOpcode::kAtomicWrite;
  }
  return WcOpcode::kSend;
}

}  // namespace

BasicStatus<memory::Refusal> gather(const SendQueue& queue, SendEntry& entry,
                                    const MessagePacket& part, const memory::LocalAccess& access,
                                    wire::PacketBuilder& builder) noexcept {
  if (entry.is_inline) {
    builder.append(queue.inline_data_of(entry).subspan(part.offset, part.octets));
    return Ok{};
  }
  const auto list = queue.list_of(entry);
  if (entry.walk_at != part.offset) entry.walk = memory::cursor_at(list, part.offset);
  entry.walk_at = part.offset + part.octets;
  return memory::walk(list, entry.walk, part.octets, access,
                      [&](std::span<std::byte> piece) { builder.append(piece); });
}

LocalOutcome run_local(const SendQueue& queue, const SendEntry& entry, const memory::KeyTable& keys,
                       const memory::Binder& binder) noexcept {
  WcStatus failure = WcStatus::kLocalQpOperation;
  memory::BindRefusal refused;
  if (entry.opcode == SendOpcode::kLocalInvalidate) {
    refused = memory::invalidate(keys, binder, entry.invalidate_key);
  } else {
    const memory::BindRequest& bind = queue.bind_of(entry);
    refused = entry.bind_type1 ? memory::bind_type1(keys, binder, bind)
                               : memory::bind_type2(keys, binder, bind);
    failure = WcStatus::kWindowBind;
  }
  if (refused == memory::BindRefusal::kNone) return {};
  return {.status = failure, .reason = reason_of(refused)};
}

Completion completion_of(const SendEntry& entry, WcStatus status, Reason reason,
                         wire::QpNumber qp) noexcept {
  Completion completion;
  completion.wr_id = entry.wr_id;
  completion.status = status;
  completion.opcode = wc_opcode_of(entry.opcode);
  completion.octets = entry.octets;
  completion.qp = qp;
  completion.detail = static_cast<std::uint32_t>(reason);
  return completion;
}

}  // namespace verbatim::transport
