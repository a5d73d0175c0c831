// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/adapter_role.h"
#include "device/adapter_types.h"
#include "device/peer_events.h"
#include "loop/queue_pair_table.h"

namespace verbatim::device {

/// Passes what peers have done on to the queue pairs of an adapter, and lists those for a turn.
class QueuePairPeerEvents final : public PeerEvents {
 public:
  /// The table and the progress outlive this object.
  QueuePairPeerEvents(const loop::QueuePairTable<QueuePair>& queue_pairs,
                      AdapterProgress& progress) noexcept
      : queue_pairs_(queue_pairs), progress_(progress) {}

  void handle_bell(std::uint32_t place) VB_REQUIRES(adapter_role) override;
  void handle_reply(const direct::Errand& reply, std::span<const std::byte> octets)
      VB_REQUIRES(adapter_role) override;
  void handle_deaths() VB_REQUIRES(adapter_role) override;

 private:
  const loop::QueuePairTable<QueuePair>& queue_pairs_;
  AdapterProgress& progress_;
};

}  // namespace verbatim::device
