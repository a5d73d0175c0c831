// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/path.h"
#include "transport/queues/landing.h"
#include "transport/rc/responder_state.h"
#include "transport/rc/train.h"
#include "transport/rules/request.h"
#include "transport/rules/verdict.h"
#include "wire/headers/packet.h"

namespace verbatim::transport {

/// The receiving side of a reliable connection (IBA Vol 1, 9.7.4 and 9.7.5): accepts requests in
/// order, executes each once, and answers with acknowledgements, refusals and data. XRC targets are
/// the same, with a shared receive queue named by each packet.
///
/// A view over a ResponderState and over the replay: it performs no I/O, reads no clock and
/// allocates nothing. Its owner
///   1. reports requests (handle_request) for this queue pair, already checked for ICRC, partition
///      and source address;
///   2. then drains poll_transmit() until it returns 0; several requests may share one answer;
///   3. then reads state().failed: the queue pair goes to ERR, after the owed answers are sent.
/// Thread: the one that runs the queue pair.
class RcResponder {
 public:
  struct Counters {
    std::uint64_t requests = 0;  // packets
    std::uint64_t messages = 0;  // complete ones
    std::uint64_t octets = 0;    // of payload, and of READ responses
    std::uint64_t duplicates = 0;
    std::uint64_t out_of_sequence = 0;
    std::uint64_t not_ready = 0;
    std::uint64_t refused = 0;
  };

  RcResponder() noexcept = default;
  /// `replay` has kMaxReadAtomic places, with any content, which only this responder uses.
  RcResponder(ResponderState* state, ReplayEntry* replay, Landing landing,
              wire::Transport transport) noexcept
      : state_(state), replay_(replay), landing_(landing), transport_(transport) {}

  /// XRC: `named` is the shared receive queue that the packet names; it need not exist.
  void handle_request(const wire::PacketView& packet, SharedReceiveRing named = {}) noexcept;

  /// Takes the packets at the front of a train that continue the message that is arriving and go
  /// into one piece of memory; returns how many. Not for XRC. Their ICRC is checked here. It may
  /// take none; each packet that it does not take is for handle_request(). The payload of a packet
  /// with a wrong ICRC may have been stored: the content of that place is undefined until the
  /// message is complete.
  [[nodiscard]] std::size_t handle_train(const TrainArrival& train, wire::PKey pkey) noexcept;

  /// Writes the next answer into `frame`, which holds wire::kMaxTransportOctets; 0 when none is
  /// owed.
  [[nodiscard]] std::size_t poll_transmit(const Path& path, std::span<std::byte> frame,
                                          std::uint16_t ipv4_identification) noexcept;
  [[nodiscard]] bool owes_answers() const noexcept {
    return state_->answer_owed || state_->replay_pending > 0;
  }
  /// The owner ends the connection: answers that are owed are dropped.
  void drop_answers() noexcept;

  /// The owner has caught a fault while this read or wrote a program's memory.
  void handle_fault_while_executing() noexcept;
  void handle_fault_while_answering() noexcept;

  [[nodiscard]] const ResponderState& state() const noexcept { return *state_; }
  [[nodiscard]] Landing& landing() noexcept { return landing_; }
  [[nodiscard]] const Landing& landing() const noexcept { return landing_; }
  /// Continues with a state and a landing that have the same contents.
  void move_to(ResponderState* state, Landing landing) noexcept {
    state_ = state;
    landing_ = landing;
  }
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  [[nodiscard]] bool use_named(const wire::PacketView& packet, SharedReceiveRing named) noexcept;

  // The checks, in the order of the specification (9.7.4.1).
  [[nodiscard]] Judgement judge(const wire::PacketView& packet, const Request& request) noexcept;
  [[nodiscard]] Judgement check_resources(const Request& request) noexcept;
  [[nodiscard]] Judgement check_lengths(const wire::PacketView& packet,
                                        const Request& request) const noexcept;
  [[nodiscard]] Judgement check_memory(const wire::PacketView& packet,
                                       const Request& request) noexcept;

  // Trains.
  struct Middles {
    std::size_t count = 0;
    std::byte* to = nullptr;
  };
  [[nodiscard]] Middles find_middles(const TrainArrival& train, wire::PKey pkey) const noexcept;
  [[nodiscard]] std::size_t place(const TrainArrival& train, const Middles& middles) noexcept;
  void count(const wire::PacketView& packet, const Request& request) noexcept;
  void note_accepted() noexcept;

  // Executing.
  [[nodiscard]] Judgement execute(const wire::PacketView& packet, const Request& request) noexcept;
  [[nodiscard]] Judgement execute_send(const wire::PacketView& packet,
                                       const Request& request) noexcept;
  [[nodiscard]] Judgement execute_write(const wire::PacketView& packet,
                                        const Request& request) noexcept;
  void execute_read(const Request& request, wire::Psn psn) noexcept;
  [[nodiscard]] Judgement execute_eight(const Request& request, wire::Psn psn) noexcept;
  [[nodiscard]] Judgement finish_receive(const Request& request) noexcept;

  // Answering.
  void refuse(const wire::PacketView& packet, const Judgement& judgement) noexcept;
  void fail(wire::Psn psn, const Judgement& judgement) noexcept;
  void fail_answer(const ReplayEntry& entry, const Judgement& judgement) noexcept;
  void answer_duplicate(const wire::PacketView& packet) noexcept;
  void repeat_read(const wire::PacketView& packet) noexcept;
  void owe(wire::Syndrome syndrome, wire::Psn psn) noexcept;
  [[nodiscard]] ReplayEntry& remember(RequestKind kind, wire::Psn psn) noexcept;
  void forget_oldest() noexcept;
  void forget_ancient() noexcept;
  [[nodiscard]] ReplayEntry& replay_at(std::uint32_t age) noexcept;
  [[nodiscard]] std::uint32_t first_pending_age() const noexcept;
  void send_again(std::uint32_t age) noexcept;
  [[nodiscard]] std::optional<std::uint32_t> find_replay(wire::Psn psn) noexcept;
  [[nodiscard]] ReplayEntry* next_pending() noexcept;
  [[nodiscard]] std::size_t send_answer(const Path& path, std::span<std::byte> frame,
                                        std::uint16_t identification) noexcept;
  [[nodiscard]] std::size_t send_replay(ReplayEntry& entry, const Path& path,
                                        std::span<std::byte> frame,
                                        std::uint16_t identification) noexcept;

  ResponderState* state_ = nullptr;
  ReplayEntry* replay_ = nullptr;  // by number, which wraps
  Landing landing_;
  wire::Transport transport_ = wire::Transport::kRc;
  Counters counters_;
};

}  // namespace verbatim::transport
