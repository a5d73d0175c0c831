// SPDX-License-Identifier: Apache-2.0
#include "transport/receiver.h"

#include <atomic>

namespace verbatim::transport {
namespace {

Landing make_landing(const Receiver::Parts& parts) noexcept {
  return {parts.place.responder, parts.place.queue, parts.shared, parts.place.port, parts.keys};
}

}  // namespace

Receiver::Receiver(QpType type, wire::QpNumber number, const Parts& parts) noexcept
    : parts_(parts),
      type_(type),
      number_(number),
      rc_(parts_.place.responder, parts_.replay, make_landing(parts_), transport_of(type)),
      uc_(parts_.place.responder, make_landing(parts_)),
      ud_(parts_.place.responder, make_landing(parts_)) {}

ResponderState Receiver::copy_of_state() const noexcept {
  ResponderState& now = state();
  // Loaded first: a receive that is no longer taken was completed before, and the queues show it.
  const bool taken = std::atomic_ref(now.receive_taken).load(std::memory_order_acquire);
  ResponderState copy = now;
  copy.receive_taken = taken;
  return copy;
}

void Receiver::move_to(const Place& place) noexcept {
  const std::uint32_t left_behind = claimant();
  parts_.place = place;
  const Landing landing = make_landing(parts_);
  rc_.move_to(place.responder, landing);
  uc_.move_to(place.responder, landing);
  ud_.move_to(place.responder, landing);
  place.responder->moves = ++moves_;
  rc_.landing().leave_behind(left_behind);
}

}  // namespace verbatim::transport
