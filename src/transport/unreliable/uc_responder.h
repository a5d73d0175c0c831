// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "transport/queues/landing.h"
#include "transport/rc/responder_state.h"
#include "transport/rules/request.h"
#include "transport/rules/verdict.h"
#include "wire/headers/packet.h"

namespace verbatim::transport {

/// The receiving side of an unreliable connection (IBA Vol 1, 9.8.2): no answers. A message with a
/// missing or wrong packet is dropped silently; a receive that it had taken is used for the next
/// message. Only an error of the receive list or of the completion queue ends the queue pair.
///
/// A view over a ResponderState. Thread: the one that runs the queue pair.
class UcResponder {
 public:
  struct Counters {
    std::uint64_t requests = 0;       // packets
    std::uint64_t messages = 0;       // complete ones
    std::uint64_t octets = 0;         // of payload
    std::uint64_t messages_lost = 0;  // begun and never finished, or refused
  };

  UcResponder() noexcept = default;
  UcResponder(ResponderState* state, Landing landing) noexcept : state_(state), landing_(landing) {}

  void handle_request(const wire::PacketView& packet) noexcept;

  [[nodiscard]] const ResponderState& state() const noexcept { return *state_; }
  [[nodiscard]] Landing& landing() noexcept { return landing_; }
  /// Continues with a state and a landing that have the same contents.
  void move_to(ResponderState* state, Landing landing) noexcept {
    state_ = state;
    landing_ = landing;
  }
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  void lose_message() noexcept;
  void refuse(const wire::PacketView& packet, const Judgement& judgement) noexcept;
  [[nodiscard]] Judgement accept(const wire::PacketView& packet) noexcept;
  [[nodiscard]] Judgement accept_send(const wire::PacketView& packet,
                                      const Request& request) noexcept;
  [[nodiscard]] Judgement accept_write(const wire::PacketView& packet,
                                       const Request& request) noexcept;
  [[nodiscard]] Judgement finish_receive(const Request& request) noexcept;

  ResponderState* state_ = nullptr;
  Landing landing_;
  Counters counters_;
};

}  // namespace verbatim::transport
