// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "memory/window.h"
#include "transport/queues/landing.h"
#include "transport/rc/responder_state.h"
#include "transport/rules/request.h"
#include "transport/rules/verdict.h"

/// How a message ends at the responder: with a receive that completes, or with the end of the half.
/// The same on each data path.
namespace verbatim::transport {

/// Whether a SEND of that many octets fits into the receive that was taken for it.
[[nodiscard]] inline Judgement check_room(const Landing& landing, std::uint64_t octets) noexcept {
  if (octets <= kMaxMessageOctets && octets <= landing.receive_octets()) return {};
  return {Verdict::kTooLong, Reason::kMessageTooLong};
}

/// The completion of the receive of a message (IBA Vol 1, 11.4.2.1). Its wr_id and queue pair are
/// set where it is published.
[[nodiscard]] constexpr Completion receive_completion(const Request& request,
                                                      std::uint32_t octets) noexcept {
  Completion completion{.opcode = request.kind == RequestKind::kWrite ? WcOpcode::kReceiveWithImm
                                                                      : WcOpcode::kReceive,
                        .solicited = request.solicited,
                        .octets = octets};
  switch (request.extra) {
    case Request::Extra::kNone:
      break;
    case Request::Extra::kImmediate:
      completion.flags = WcFlags::kWithImm;
      completion.imm_or_key = request.imm_or_key;
      break;
    case Request::Extra::kInvalidate:
      completion.flags = WcFlags::kWithInvalidate;
      completion.imm_or_key = request.imm_or_key;
      break;
  }
  return completion;
}

/// Ends a message that has taken a receive, when its octets are in place: invalidates the key that
/// it names, then completes the receive (9.4.1.1.3). `publish(completion)` publishes the
/// completion, and is false when the completion queue has no place.
template <typename Publish>
[[nodiscard]] inline Judgement finish_receive(const Request& request, std::uint32_t octets,
                                              ResponderState& state, Landing& landing,
                                              Publish&& publish) noexcept {
  if (request.extra == Request::Extra::kInvalidate) {
    const auto refused =
        memory::invalidate(landing.keys(), {.domain = state.domain, .qp = state.number},
                           wire::MemoryKey{request.imm_or_key});
    if (refused != memory::BindRefusal::kNone) {
      return {Verdict::kInvalidateRefused, reason_of(refused)};
    }
  }
  ++state.msn;
  const bool placed = publish(receive_completion(request, octets));
  landing.abandon_message();
  if (!placed) return {Verdict::kOverrun, Reason::kCompletionOverrun};
  return {};
}

/// Ends the half because of a request that was refused. A receive that was taken completes with the
/// error, otherwise an event reports it (9.9). The owner changes the state of the queue pair when
/// it finds that the half has failed. The caller answers the requester.
void end_half(ResponderState& state, Landing& landing, const Judgement& judgement) noexcept;

}  // namespace verbatim::transport
