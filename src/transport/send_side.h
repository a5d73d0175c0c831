// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/scatter_gather.h"
#include "transport/queues/send_queue.h"
#include "transport/segmentation.h"
#include "wire/headers/packet_builder.h"

/// Shared by the requesters of all service types.
namespace verbatim::transport {

/// Copies the payload of one packet from the entry's gather list, or from its inline data, into a
/// packet. The entry keeps its position in the list, so that packets in order need no search.
[[nodiscard]] BasicStatus<memory::Refusal> gather(const SendQueue& queue, SendEntry& entry,
                                                  const MessagePacket& part,
                                                  const memory::LocalAccess& access,
                                                  wire::PacketBuilder& builder) noexcept;

/// The outcome of an operation that needs no packet: a bind or a local invalidate.
struct LocalOutcome {
  WcStatus status = WcStatus::kSuccess;
  Reason reason = Reason::kNone;
};
[[nodiscard]] LocalOutcome run_local(const SendQueue& queue, const SendEntry& entry,
                                     const memory::KeyTable& keys,
                                     const memory::Binder& binder) noexcept;

/// The completion that reports `entry`.
[[nodiscard]] Completion completion_of(const SendEntry& entry, WcStatus status, Reason reason,
                                       wire::QpNumber qp) noexcept;

}  // namespace verbatim::transport
