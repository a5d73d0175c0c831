// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/expected.h"
#include "base/time.h"
#include "transport/arrival.h"
#include "transport/qp_attributes.h"
#include "transport/qp_state.h"
#include "transport/receiver.h"
#include "transport/sender.h"
#include "transport/traffic.h"

namespace verbatim::transport {

/// One queue pair of any service type (IBA Vol 1, 10.2.4 and 10.3): the state machine of the verbs
/// around a sender and a receiver.
///
/// Pure: no I/O, no clock, no allocation. Its owner
///   1. calls modify() and post_*(), and reports packets and timeouts (handle_*), in non-decreasing
///      time;
///   2. then drains poll_transmit() until it returns no octets, and poll_event();
///   3. then sleeps no longer than next_timeout().
/// Completions appear in the completion queues that its ports belong to.
/// Thread: the one that holds the queue pair's lock.
class alignas(64) QueuePairMachine {
 public:
  struct Config {
    QpType type = QpType::kRc;
    wire::QpNumber number{};
    memory::DomainId domain = memory::DomainId::kNone;
    bool signal_all = false;                        // every send request completes visibly
    wire::PathMtu port_mtu = wire::PathMtu::k4096;  // the most that a path may have
    // Limits of what is in flight, and of one READ request. The smaller one counts, at the path's
    // MTU.
    std::uint32_t window_packets = 128;
    std::uint32_t window_octets = 1U << 30;
    std::uint32_t read_chunk_packets = 128;
    std::uint32_t read_chunk_octets = 1U << 30;
    RatePolicy::Limit unreliable_rate{};  // of UC and UD
  };
  /// The blocks and queues that it uses. They belong to the caller and outlive the queue pair.
  struct Parts {
    SendQueue send_queue;
    CompletionPort send_port;
    CompletionPort receive_port;
    ResponderState* responder = nullptr;
    ReplayEntry* replay = nullptr;     // RC and XRC targets: kMaxReadAtomic places; private
    ReceiveQueue receive_queue;        // absent with a shared one
    SharedReceiveRing shared_receive;  // absent without
    memory::KeyTable keys;
  };
  struct Transmit {
    std::size_t octets = 0;            // 0: nothing to send now
    std::uint32_t packets = 0;         // of equal length
    std::uint16_t identification = 0;  // over IPv4, of the first
    const Path* path = nullptr;        // valid until the next call of anything here
  };

  QueuePairMachine(const Config& config, const Parts& parts) noexcept;
  QueuePairMachine(const QueuePairMachine&) = delete;
  QueuePairMachine& operator=(const QueuePairMachine&) = delete;

  /// kInvalidArgument when the state table, or a value, does not allow it; nothing has changed
  /// then. `path` is read when kAddress is named.
  [[nodiscard]] Status modify(QpMask mask, const QpAttributes& attributes,
                              const Path* path) noexcept;
  /// The port has another key at pkey_index now; 0: none, and no packet matches it.
  void use_pkey(wire::PKey pkey) noexcept;
  /// The attributes as they are now, sequence numbers included.
  [[nodiscard]] QpAttributes attributes() const noexcept;
  [[nodiscard]] const Path& path() const noexcept { return path_; }
  [[nodiscard]] QpState state() const noexcept { return attributes_.state; }
  [[nodiscard]] const Config& config() const noexcept { return config_; }

  [[nodiscard]] Status post_send(const SendRequest& request) noexcept;
  [[nodiscard]] Status post_receive(const ReceiveRequest& request) noexcept {
    if (state() == QpState::kReset) return Errc::kInvalidArgument;
    auto posted = receiver_.post(request);
    if (posted && state() == QpState::kError) [[unlikely]]
      receiver_.landing().flush();
    return posted;
  }

  /// `xrc_shared` is the shared receive queue that the packet's XRCETH names, if it has one.
  void handle_packet(Instant now, const Arrival& arrival,
                     SharedReceiveRing xrc_shared = {}) noexcept;
  /// Takes packets from the front of a train as long as they continue the message that is arriving,
  /// and returns how many. Their ICRC is checked here, while they are placed. All other packets,
  /// also those with any error, are for handle_packet().
  [[nodiscard]] std::size_t handle_train(const TrainArrival& train) noexcept;
  void handle_timeout(Instant now) noexcept;
  /// The owner has caught a fault in a call that handles or polls packets: memory that a request or
  /// a receive names is registered, but the program has unmapped it. That request or receive fails.
  void handle_memory_fault() noexcept;
  /// Events outside of this machine, which its owner reports.
  enum class OwnerEvent : std::uint8_t {
    kFirstRequest,       // the first request of the peer was executed in this queue pair's half
    kSendFailed,         // a request that the direct requester executed has failed; it is completed
    kSidesChanged,       // the direct requester or the half may have failed or have drained
    kHalfFailed,         // the half has failed, and no requester is inside
    kCompletionOverrun,  // a completion queue overran: the queue pair goes to ERR
  };
  /// Changes the state and raises events as that requires.
  void handle(OwnerEvent event) noexcept;

  /// Whether losses are detected: RC and XRC.
  [[nodiscard]] bool is_reliable() const noexcept { return transport::is_reliable(config_.type); }
  /// False when poll_train() would certainly write nothing.
  [[nodiscard]] bool may_have_more() const noexcept {
    return !is_reliable() || receiver_.rc().owes_answers() || sender_.has_unsent();
  }
  /// True when poll_train() would write an acknowledgement or a refusal, and nothing else.
  [[nodiscard]] bool only_acknowledges() const noexcept {
    const RcResponder& rc = receiver_.rc();
    return is_reliable() && rc.owes_answers() && rc.state().replay_pending == 0 &&
           !sender_.has_unsent();
  }
  /// Writes one packet, or several of equal length.
  [[nodiscard]] Transmit poll_train(Instant now, const TrainRoom& room) noexcept;
  /// Writes one packet into `frame`, which holds wire::kMaxTransportOctets.
  [[nodiscard]] Transmit poll_transmit(Instant now, std::span<std::byte> frame,
                                       std::uint16_t ipv4_identification = 0) noexcept {
    return poll_train(now, {.frame = frame, .identification = ipv4_identification});
  }
  /// Where an unreliable service sends next; nothing when it has nothing to send now, and for
  /// reliable services, whose window limits them.
  [[nodiscard]] std::optional<UnreliableSender::Destination> next_unreliable_destination(
      Instant now) const noexcept;
  /// The destination has no room: an unreliable service sends nothing before `until`.
  void hold_until(Instant until) noexcept { sender_.unreliable().hold_until(until); }
  [[nodiscard]] std::optional<QpEvent> poll_event() noexcept;
  /// Whether the last packet given to handle_packet() was dropped because of one of its keys; once.
  [[nodiscard]] std::optional<KeyViolation> take_key_violation() noexcept {
    return std::exchange(key_violation_, std::nullopt);
  }
  [[nodiscard]] Instant next_timeout() const noexcept;

  /// Whether this queue pair accepts the packet: it is of its service and partition, and from the
  /// peer that it is connected to, or with its Q_Key. All others are dropped.
  [[nodiscard]] bool is_addressed_by(const Arrival& arrival) const noexcept;
  /// Whether the packet would be lost because no receive is posted: UC and UD have no RNR NAK. A
  /// change of receives_posted(), which wraps, shows that a receive was posted since.
  [[nodiscard]] bool lacks_receive_for(const wire::PacketView& packet) const noexcept;
  [[nodiscard]] std::uint32_t receives_posted() const noexcept {
    return receiver_.landing().receives_posted();
  }

  /// The two sides, for the direct path (docs/ARCHITECTURE.md, section 4) and for observers.
  [[nodiscard]] Sender& sender() noexcept { return sender_; }
  [[nodiscard]] Receiver& receiver() noexcept { return receiver_; }
  [[nodiscard]] const ResponderState& responder_state() const noexcept { return receiver_.state(); }
  /// Whether every send request that was posted has completed.
  [[nodiscard]] bool has_no_sends() const noexcept { return sender_.is_empty(); }
  /// Sequence numbers sent and not acknowledged; 0 for unreliable services.
  [[nodiscard]] std::uint32_t in_flight() const noexcept { return sender_.in_flight(); }

 private:
  /// The activity that reads or writes registered memory, for a fault that interrupts it.
  enum class Work : std::uint8_t { kSending, kAnswering, kExecuting, kPlacing };

  [[nodiscard]] std::uint32_t path_mtu() const noexcept;
  void enter(QpState from, QpState to) noexcept;
  void start_responder() noexcept;
  void publish_to_responder() noexcept;
  void start_sender(bool afresh) noexcept;
  void reset() noexcept;
  void enter_error() noexcept;
  void handle_first_request() noexcept;
  void note_qkey_violation(const Arrival& arrival) noexcept;
  void handle_send_failure() noexcept;
  void handle_completion_overrun() noexcept;
  void follow_sides() noexcept;
  void raise(QpEvent event) noexcept;
  [[nodiscard]] std::optional<PacketDrop> find_fault(const Arrival& arrival) const noexcept;
  [[nodiscard]] Transmit poll_sender(Instant now, const TrainRoom& room) noexcept;

  // Members that a posting and a turn read lie close together, before the two sides, which are
  // large.
  QpAttributes attributes_;
  Config config_;
  std::uint8_t events_ = 0;      // QpEvents not yet collected, a bit each
  Work work_ = Work::kSending;   // the present activity
  bool established_ = false;     // a packet has arrived
  bool drain_reported_ = false;  // SQD: the event was raised
  bool sender_turn_ = false;     // the requester sends next, not the responder
  std::optional<KeyViolation> key_violation_{};
  Sender sender_;
  Receiver receiver_;
  Path path_;
};

/// Whether the queue pair is in SQD and a request that had begun is not finished.
[[nodiscard]] inline bool is_draining(QueuePairMachine& machine) noexcept {
  return machine.state() == QpState::kSendQueueDrained && !machine.sender().is_drained();
}
/// The counters of the packet path.
[[nodiscard]] Traffic traffic_of(QueuePairMachine& machine) noexcept;

}  // namespace verbatim::transport
