// SPDX-License-Identifier: Apache-2.0
#include "transport/rules/message_end.h"

namespace verbatim::transport {

void end_half(ResponderState& state, Landing& landing, const Judgement& judgement) noexcept {
  const Consequence consequence = consequence_of(judgement.verdict);
  state.event = consequence.event;
  state.event_due = !state.receive_taken;
  state.reason = judgement.reason;
  mark_failing(state);  // before the program can see the completion
  if (state.receive_taken) {
    (void)landing.complete_receive(  // a full queue has overrun already
        {.status = consequence.receive_status,
         .opcode = WcOpcode::kReceive,
         .detail = static_cast<std::uint32_t>(judgement.reason)});
  }
  landing.abandon_message();
  mark_failed(state);
}

}  // namespace verbatim::transport
