// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "memory/refusal.h"
#include "memory/window.h"

namespace verbatim::transport {

/// The cause of an error, finer than a completion status. The completion has it in its vendor
/// error, so that an error can be traced to the check that failed.
enum class Reason : std::uint32_t {
  kNone = 0,
  kOutOfOrderOpcode = 1,     // Middle or Last outside a message, First or Only inside one
  kOperationNotEnabled = 2,  // the queue pair's access flags do not allow it
  kTooManyReads = 3,         // more READs and atomics than the responder has room for
  kBadPacketLength = 4,      // payload that does not fit the opcode, the MTU or the DMA length
  kMisaligned = 5,           // an atomic at an address that is not a multiple of eight
  kMessageTooLong = 6,       // longer than the receive buffer, or than any message may be
  kNoReceive = 7,
  kUnexpectedResponse = 8,  // a response that no request asked for
  kBadResponseLength = 9,
  kNoAnswer = 10,            // every retry went unanswered
  kReceiverNotReady = 11,    // every RNR retry found no receive
  kCompletionOverrun = 12,   // the completion queue has no place
  kNoReadsAllowed = 13,      // READ or atomic with max_rd_atomic 0
  kUnknownSharedQueue = 14,  // an XRC request for a shared receive queue that does not exist
  kRemoteNak = 15,           // the peer has refused the request; its reason is not known here
  kMemoryGone = 16,          // registered memory that is no longer mapped
  kReservedValue = 17,       // a field of a request has a value that is not defined
  kNotOfThisService = 18,    // an operation that queue pairs of this type do not have
  kForeignAddress = 19,      // an address handle of another protection domain
  kNotEight = 20,            // an atomic whose list does not hold eight octets
  kMemory = 0x100,           // + memory::Refusal
  kWindow = 0x200,           // + memory::BindRefusal
};

[[nodiscard]] constexpr Reason reason_of(memory::Refusal refusal) noexcept {
  return Reason(static_cast<std::uint32_t>(Reason::kMemory) + static_cast<std::uint32_t>(refusal));
}
[[nodiscard]] constexpr Reason reason_of(memory::BindRefusal refusal) noexcept {
  return Reason(static_cast<std::uint32_t>(Reason::kWindow) + static_cast<std::uint32_t>(refusal));
}

/// A phrase for messages.
[[nodiscard]] const char* describe(Reason reason) noexcept;

}  // namespace verbatim::transport
