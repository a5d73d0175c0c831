// SPDX-License-Identifier: Apache-2.0
#include "transport/segmentation.h"

#include "base/assert.h"

namespace verbatim::transport {
namespace {

using wire::Operation;

/// The operations of the first, middle, last and only packet of a message.
struct Shapes {
  Operation first;
  Operation middle;
  Operation last;
  Operation only;
};

Shapes shapes_of(SendOpcode opcode) noexcept {
  switch (opcode) {
    case SendOpcode::kSend:
      return {Operation::kSendFirst, Operation::kSendMiddle, Operation::kSendLast,
              Operation::kSendOnly};
    case SendOpcode::kSendImm:
      return {Operation::kSendFirst, Operation::kSendMiddle, Operation::kSendLastImm,
              Operation::kSendOnlyImm};
    case SendOpcode::kSendInvalidate:
      return {Operation::kSendFirst, Operation::kSendMiddle, Operation::kSendLastInvalidate,
              Operation::kSendOnlyInvalidate};
    case SendOpcode::kWrite:
      return {Operation::kWriteFirst, Operation::kWriteMiddle, Operation::kWriteLast,
              Operation::kWriteOnly};
    case SendOpcode::kWriteImm:
      return {Operation::kWriteFirst, Operation::kWriteMiddle, Operation::kWriteLastImm,
              Operation::kWriteOnlyImm};
    case SendOpcode::kRead:
    case SendOpcode::kCompareSwap:
    case SendOpcode::kFetchAdd:
    case SendOpcode::kFlush:
    case SendOpcode::kAtomicWrite:
    case SendOpcode::kLocalInvalidate:
    case SendOpcode::kBindWindow:
      break;
  }
  VB_ASSERT(false && "only SEND and WRITE are divided into packets");
  return {};
}

}  // namespace

MessagePacket message_packet(SendOpcode opcode, std::uint32_t message_octets, std::uint32_t mtu,
                             std::uint32_t index) noexcept {
  const Shapes shapes = shapes_of(opcode);
  const std::uint32_t offset = index * mtu;
  MessagePacket part{.operation = {},
                     .offset = offset,
                     .octets = std::min(mtu, message_octets - offset),
                     .is_first = index == 0,
                     .is_last = message_octets - offset <= mtu};
  if (part.is_first) {
    part.operation = part.is_last ? shapes.only : shapes.first;
  } else {
    part.operation = part.is_last ? shapes.last : shapes.middle;
  }
  return part;
}

}  // namespace verbatim::transport
