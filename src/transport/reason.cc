// SPDX-License-Identifier: Apache-2.0
#include "transport/reason.h"

namespace verbatim::transport {

const char* describe(Reason reason) noexcept {
  const auto raw = static_cast<std::uint32_t>(reason);
  const auto window = raw - static_cast<std::uint32_t>(Reason::kWindow);
  const auto memory = raw - static_cast<std::uint32_t>(Reason::kMemory);
  if (raw >= static_cast<std::uint32_t>(Reason::kWindow)) {
    return window < memory::kBindRefusalCount ? name_of(memory::BindRefusal(window)) : "?";
  }
  if (raw >= static_cast<std::uint32_t>(Reason::kMemory)) {
    return memory < memory::kRefusalCount ? name_of(memory::Refusal(memory)) : "?";
  }
  switch (reason) {
    case Reason::kNone:
      return "no reason";
    case Reason::kOutOfOrderOpcode:
      return "the opcode does not continue the message";
    case Reason::kOperationNotEnabled:
      return "the queue pair does not allow this operation";
    case Reason::kTooManyReads:
      return "more READs and atomics at once than agreed";
    case Reason::kBadPacketLength:
      return "the packet's payload has a wrong length";
    case Reason::kMisaligned:
      return "the address is not a multiple of eight";
    case Reason::kMessageTooLong:
      return "the message does not fit";
    case Reason::kNoReceive:
      return "no receive was posted";
    case Reason::kUnexpectedResponse:
      return "the response answers no request";
    case Reason::kBadResponseLength:
      return "the response has a wrong length";
    case Reason::kNoAnswer:
      return "the peer did not answer";
    case Reason::kReceiverNotReady:
      return "the peer posted no receive in time";
    case Reason::kCompletionOverrun:
      return "the completion queue is full";
    case Reason::kNoReadsAllowed:
      return "the queue pair may have no READ or atomic in flight";
    case Reason::kUnknownSharedQueue:
      return "no shared receive queue has this number";
    case Reason::kRemoteNak:
      return "the peer refused the request";
    case Reason::kMemoryGone:
      return "the program has unmapped registered memory";
    case Reason::kReservedValue:
      return "a field has a value that is not defined";
    case Reason::kNotOfThisService:
      return "queue pairs of this type do not have the operation";
    case Reason::kForeignAddress:
      return "the address handle is in another protection domain";
    case Reason::kNotEight:
      return "an atomic needs a list of eight octets";
    case Reason::kMemory:
    case Reason::kWindow:
      break;
  }
  return "?";
}

}  // namespace verbatim::transport
