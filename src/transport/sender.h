// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"
#include "memory/key_table.h"
#include "transport/qp_type.h"
#include "transport/queues/completion_lanes.h"
#include "transport/queues/send_queue.h"
#include "transport/rc/rc_requester.h"
#include "transport/unreliable/unreliable_sender.h"

namespace verbatim::transport {

/// The sending side of a queue pair: its send queue, and what sends the requests in packets:
/// RcRequester for RC and XRC, UnreliableSender for UC and UD. On the direct path
/// direct::Requester executes the queue instead.
///
/// Thread: the one that holds the queue pair's lock.
class Sender {
 public:
  Sender(QpType type, const SendQueue& queue, const CompletionPort& port,
         const memory::KeyTable& keys) noexcept
      : queue_(queue),
        port_(port),
        is_reliable_(transport::is_reliable(type)),
        requester_(&queue_, port, keys),
        unreliable_(&queue_, port, keys) {}
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  [[nodiscard]] SendQueue& queue() noexcept { return queue_; }
  [[nodiscard]] const CompletionPort& port() const noexcept { return port_; }
  [[nodiscard]] RcRequester& requester() noexcept { return requester_; }
  [[nodiscard]] UnreliableSender& unreliable() noexcept { return unreliable_; }
  [[nodiscard]] const UnreliableSender& unreliable() const noexcept { return unreliable_; }

  /// Whether the send queue has room for that many requests.
  [[nodiscard]] bool has_room_for(std::uint32_t requests) const noexcept {
    return queue_.has_room_for(requests, port_.uncollected());
  }
  /// Whether every request that was posted has completed.
  [[nodiscard]] bool is_empty() const noexcept { return queue_.is_empty(); }
  /// With true, direct::Requester executes the send queue from now on; with false, this sends it in
  /// packets.
  void hand_over(bool to_direct_path) noexcept { is_elsewhere_ = to_direct_path; }
  [[nodiscard]] bool is_elsewhere() const noexcept { return is_elsewhere_; }

  /// The partition of all packets from now on.
  void use_pkey(wire::PKey pkey) noexcept {
    requester_.use_pkey(pkey);
    unreliable_.use_pkey(pkey);
  }
  /// While paused (SQD), no request is started; one that has begun is finished.
  void pause(bool paused) noexcept {
    requester_.pause(paused);
    unreliable_.pause(paused);
  }
  /// Whether no request has begun that is not finished.
  [[nodiscard]] bool is_drained() const noexcept {
    return is_reliable_ ? requester_.is_drained() : unreliable_.is_drained();
  }
  /// Whether a request has failed. It has been completed.
  [[nodiscard]] bool has_failed() const noexcept {
    return is_reliable_ ? requester_.has_failed() : unreliable_.has_failed();
  }
  [[nodiscard]] bool has_unsent() const noexcept { return requester_.has_unsent(); }
  /// Completes all requests as flushed.
  void flush() noexcept { is_reliable_ ? requester_.flush() : unreliable_.flush(); }
  /// The owner has caught a fault while the memory of a request was read.
  void handle_memory_fault() noexcept {
    is_reliable_ ? requester_.handle_fault_while_sending() : unreliable_.handle_memory_fault();
  }

  [[nodiscard]] wire::Psn next_psn() const noexcept {
    return is_reliable_ ? requester_.next_psn() : unreliable_.next_psn();
  }
  /// Sequence numbers sent and not acknowledged; 0 for unreliable services.
  [[nodiscard]] std::uint32_t in_flight() const noexcept {
    return is_reliable_ ? requester_.in_flight() : 0;
  }
  [[nodiscard]] Instant next_timeout() const noexcept {
    return is_reliable_ ? requester_.next_timeout() : unreliable_.next_timeout();
  }

 private:
  SendQueue queue_;
  CompletionPort port_;
  bool is_reliable_;
  bool is_elsewhere_ = false;    // the direct path executes the queue
  RcRequester requester_;        // RC and XRC initiators
  UnreliableSender unreliable_;  // UC and UD
};

}  // namespace verbatim::transport
