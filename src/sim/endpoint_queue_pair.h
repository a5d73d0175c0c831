// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "base/adapter_role.h"
#include "base/assert.h"
#include "loop/agenda.h"
#include "loop/late_receive.h"
#include "loop/waiting_room.h"
#include "transport/queue_pair_machine.h"
#include "wire/cm/cm_ids.h"

namespace verbatim::sim {

/// A queue pair of an endpoint: the machine, and its place in the loop of the endpoint. All its
/// requests go through packets.
class EndpointQueuePair {
 public:
  /// The parts outlive the queue pair.
  struct Parts {
    loop::Agenda<EndpointQueuePair>& agenda;
    const std::vector<transport::SharedReceiveRing>& shared;  // by their numbers, for XRC
  };
  explicit EndpointQueuePair(const Parts& parts) noexcept : parts_(parts) {}
  EndpointQueuePair(const EndpointQueuePair&) = delete;
  EndpointQueuePair& operator=(const EndpointQueuePair&) = delete;

  void start(const transport::QueuePairMachine::Config& config,
             const transport::QueuePairMachine::Parts& parts) {
    machine_.emplace(config, parts);
  }
  [[nodiscard]] transport::QueuePairMachine& machine() noexcept { return *machine_; }
  [[nodiscard]] wire::QpNumber number() const noexcept { return machine_->config().number; }

  // ---- For the program. The packets leave with the endpoint's next transmit(). ----

  [[nodiscard]] Status modify(transport::QpMask mask, const transport::QpAttributes& attributes,
                              const transport::Path* path) {
    const SoleUser simulated;
    has_posted_ = true;
    parts_.agenda.list(*this);
    return machine_->modify(mask, attributes, path);
  }
  [[nodiscard]] Status post_send(const transport::SendRequest& request) {
    const SoleUser simulated;
    has_posted_ = true;
    parts_.agenda.list(*this);
    return machine_->post_send(request);
  }
  [[nodiscard]] Status post_receive(const transport::ReceiveRequest& request) noexcept {
    return machine_->post_receive(request);
  }
  /// Whether the program has called modify() or post_send() since this was asked last.
  [[nodiscard]] bool take_posted() noexcept { return std::exchange(has_posted_, false); }

  // ---- For the loop ----

  /// The loop holds a queue pair while it works on it, and never twice.
  class Hold {
   public:
    explicit Hold(bool& is_held) noexcept : is_held_(is_held) {
      VB_ASSERT(!is_held);
      is_held = true;
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { is_held_ = false; }

   private:
    bool& is_held_;
  };
  [[nodiscard]] Hold hold() noexcept { return Hold(is_held_); }
  [[nodiscard]] loop::AgendaEntry& agenda_entry() noexcept { return agenda_entry_; }
  [[nodiscard]] loop::WaitingPackets& waiting_packets() noexcept { return waiting_packets_; }
  [[nodiscard]] bool is_datagram() const noexcept {
    return machine_->config().type == transport::QpType::kUd;
  }
  [[nodiscard]] bool takes_packets() const noexcept { return true; }
  [[nodiscard]] bool lets_wait(const transport::Arrival& arrival, Instant at) noexcept {
    return late_.lets_wait(*machine_, arrival, at);
  }
  /// An XRC target finds the shared receive queue that the packet names.
  void handle_packet(Instant at, const transport::Arrival& arrival) noexcept {
    VB_ASSERT(is_held_);
    transport::SharedReceiveRing shared;
    if (arrival.packet.info().has(wire::OpcodeInfo::kXrcEth)) {
      const auto number = static_cast<std::uint32_t>(arrival.packet.xrceth().srq);
      if (number < parts_.shared.size()) shared = parts_.shared[number];
    }
    machine_->handle_packet(at, arrival, shared);
  }
  [[nodiscard]] wire::CommId awaited() const noexcept { return {}; }
  void set_awaited(wire::CommId) noexcept {}
  [[nodiscard]] bool run_directly() const noexcept { return true; }
  [[nodiscard]] bool waits_for_receive() const noexcept { return false; }
  [[nodiscard]] bool finds_receive() const noexcept { return false; }
  [[nodiscard]] bool is_waited_for() const noexcept { return false; }
  [[nodiscard]] Instant next_timeout() const noexcept { return machine_->next_timeout(); }
  void announce() noexcept {}
  void show() noexcept {}

 private:
  Parts parts_;
  std::optional<transport::QueuePairMachine> machine_;
  loop::AgendaEntry agenda_entry_;
  loop::LateReceive late_;
  loop::WaitingPackets waiting_packets_;
  bool has_posted_ = false;
  bool is_held_ = false;
};

}  // namespace verbatim::sim
