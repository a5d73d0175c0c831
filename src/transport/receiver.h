// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/expected.h"
#include "memory/key_table.h"
#include "transport/arrival.h"
#include "transport/qp_type.h"
#include "transport/queues/completion_lanes.h"
#include "transport/queues/landing.h"
#include "transport/queues/receive_queue.h"
#include "transport/queues/shared_receive_ring.h"
#include "transport/rc/rc_responder.h"
#include "transport/rc/responder_state.h"
#include "transport/unreliable/uc_responder.h"
#include "transport/unreliable/ud_responder.h"

namespace verbatim::transport {

/// The receiving half of a queue pair: the responder's state, the receive queue, and a responder
/// for each service type. On the direct path a peer works on the same state and queue.
///
/// Thread: the one that holds the queue pair's lock.
class Receiver {
 public:
  /// Where the half lies.
  struct Place {
    ResponderState* responder = nullptr;
    ReceiveQueue queue;  // absent with a shared one
    CompletionPort port;
  };
  struct Parts {
    Place place;
    SharedReceiveRing shared;       // absent without
    ReplayEntry* replay = nullptr;  // RC and XRC targets: kMaxReadAtomic places; private
    memory::KeyTable keys;
  };
  Receiver(QpType type, wire::QpNumber number, const Parts& parts) noexcept;
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  [[nodiscard]] ResponderState& state() const noexcept { return *parts_.place.responder; }
  [[nodiscard]] const ReceiveQueue& queue() const noexcept { return parts_.place.queue; }
  [[nodiscard]] bool is_shared() const noexcept { return parts_.shared.exists(); }
  /// Only with a receive queue of its own.
  [[nodiscard]] Status post(const ReceiveRequest& request) noexcept {
    if (!parts_.place.queue.exists()) return Errc::kInvalidArgument;
    return parts_.place.queue.post(request, parts_.place.port.collected());
  }
  [[nodiscard]] Landing& landing() noexcept { return rc_.landing(); }
  [[nodiscard]] const Landing& landing() const noexcept { return rc_.landing(); }

  /// A request of this queue pair's service. `xrc_shared` is the shared receive queue that the
  /// packet names.
  void handle_request(const Arrival& arrival, SharedReceiveRing xrc_shared) noexcept {
    switch (type_) {
      case QpType::kRc:
        rc_.handle_request(arrival.packet);
        return;
      case QpType::kXrcTarget:
        rc_.handle_request(arrival.packet, xrc_shared);
        return;
      case QpType::kUc:
        uc_.handle_request(arrival.packet);
        return;
      case QpType::kUd:
      case QpType::kGsi:
      case QpType::kSmi:
        ud_.handle_request(arrival.packet, arrival.network_header, arrival.local);
        return;
      case QpType::kXrcInitiator:
      case QpType::kRawPacket:
        return;  // the machine has dropped it
    }
  }
  [[nodiscard]] RcResponder& rc() noexcept { return rc_; }
  [[nodiscard]] const RcResponder& rc() const noexcept { return rc_; }
  [[nodiscard]] const UcResponder& uc() const noexcept { return uc_; }
  [[nodiscard]] const UdResponder& ud() const noexcept { return ud_; }

  // ---- The direct path ----

  /// For move_to(). A receive that is no longer taken has been completed, and the queues show it.
  [[nodiscard]] ResponderState copy_of_state() const noexcept;
  /// The half lies elsewhere from now on, with the same contents. The caller has copied the state
  /// and then moved the queues. A requester that is still inside the old half stays there. A shared
  /// receive that it has claimed stays claimed by the earlier claimant() of this queue pair.
  void move_to(const Place& place) noexcept;
  /// How often move_to() was called. The number wraps.
  [[nodiscard]] std::uint8_t moves() const noexcept { return moves_; }
  /// The claimant of shared receives for this queue pair.
  [[nodiscard]] std::uint32_t claimant() const noexcept {
    return Landing::claimant_of(number_, moves_);
  }
  /// No requester is inside the half. A requester that died after mark_failing() counts as one that
  /// has called mark_failed().
  void finish_failing() noexcept {
    if (is_failing(state())) mark_failed(state());
  }

  void count_dropped(PacketDrop why) noexcept { ++dropped_[static_cast<std::size_t>(why)]; }
  [[nodiscard]] std::uint64_t dropped(PacketDrop why) const noexcept {
    return dropped_[static_cast<std::size_t>(why)];
  }

 private:
  Parts parts_;
  QpType type_;
  std::uint8_t moves_ = 0;
  wire::QpNumber number_;
  RcResponder rc_;  // RC and XRC targets; its landing serves every type
  UcResponder uc_;
  UdResponder ud_;
  std::array<std::uint64_t, kPacketDropCount> dropped_{};
};

}  // namespace verbatim::transport
