// SPDX-License-Identifier: Apache-2.0
#include "device/queue_pair_peer_events.h"

#include "device/adapter_work.h"
#include "device/clock.h"
#include "device/queue_pair.h"

namespace verbatim::device {

void QueuePairPeerEvents::handle_bell(std::uint32_t place) {
  QueuePair* qp = queue_pairs_.at(place);
  if (qp == nullptr) return;
  {
    const auto held = qp->hold();
    qp->handle_bell();
  }
  progress_.list(*qp);
}

void QueuePairPeerEvents::handle_reply(const direct::Errand& reply,
                                       std::span<const std::byte> octets) {
  QueuePair* qp = queue_pairs_.find(reply.requester);
  if (qp == nullptr) return;
  {
    const auto held = qp->hold();
    if (auto* requester = qp->requester()) requester->handle_reply(reply, octets);
  }
  progress_.serve(*qp, now());
}

/// Any requester may have lost its peer: each of them looks at its next turn.
void QueuePairPeerEvents::handle_deaths() {
  queue_pairs_.for_each([&](QueuePair& qp) {
    assume_adapter_role();
    if (qp.requester() != nullptr) progress_.list(qp);
  });
}

}  // namespace verbatim::device
