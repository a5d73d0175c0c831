// SPDX-License-Identifier: Apache-2.0
#include "transport/queue_pair_machine.h"

#include <bit>

#include "transport/qp_state.h"
#include "transport/queues/post_rules.h"
#include "transport/rules/message_end.h"

namespace verbatim::transport {

QueuePairMachine::QueuePairMachine(const Config& config, const Parts& parts) noexcept
    : config_(config),
      sender_(config.type, parts.send_queue, parts.send_port, parts.keys),
      receiver_(config.type, config.number,
                {.place = {.responder = parts.responder,
                           .queue = parts.receive_queue,
                           .port = parts.receive_port},
                 .shared = parts.shared_receive,
                 .replay = parts.replay,
                 .keys = parts.keys}) {
  receiver_.state() = ResponderState{};
  publish_to_responder();
  start_sender(true);
}

// ---- Queries ----

std::uint32_t QueuePairMachine::path_mtu() const noexcept {
  return octets_of(is_datagram(config_.type) ? config_.port_mtu : attributes_.path_mtu);
}

Traffic traffic_of(QueuePairMachine& machine) noexcept {
  Traffic traffic;
  Sender& sender = machine.sender();
  const Receiver& receiver = machine.receiver();
  if (machine.is_reliable()) {
    const RcRequester::Counters& sent = sender.requester().counters();
    traffic.messages = sent.messages;
    traffic.octets = sent.octets;
    traffic.packets = sent.packets_sent;
    traffic.repeats = sent.packets_resent;
    traffic.not_ready = sent.rnr_naks;
    traffic.served_messages = receiver.rc().counters().messages;
    traffic.served_octets = receiver.rc().counters().octets;
    return traffic;
  }
  const UnreliableSender::Counters& sent = sender.unreliable().counters();
  traffic.messages = sent.messages;
  traffic.octets = sent.octets;
  traffic.packets = sent.packets_sent;
  const bool is_datagrams = is_datagram(machine.config().type);
  traffic.served_messages =
      is_datagrams ? receiver.ud().counters().requests : receiver.uc().counters().messages;
  traffic.served_octets =
      is_datagrams ? receiver.ud().counters().octets : receiver.uc().counters().octets;
  return traffic;
}

QpAttributes QueuePairMachine::attributes() const noexcept {
  QpAttributes now = attributes_;
  now.current_state = now.state;
  now.receive_psn = receiver_.state().expected_psn;
  now.send_psn = sender_.next_psn();
  return now;
}

// ---- Changes ----

Status QueuePairMachine::modify(QpMask mask, const QpAttributes& wanted,
                                const Path* path) noexcept {
  const QpState from = state();
  const QpState to = names(mask, QpMask::kState) ? wanted.state : from;
  if (names(mask, QpMask::kCurrentState) && wanted.current_state != from) {
    return Errc::kInvalidArgument;
  }
  if (auto allowed = check_transition(config_.type, from, to, mask); !allowed) return allowed;
  if (auto sensible = check_values(mask, wanted, config_.port_mtu); !sensible) return sensible;
  if (names(mask, QpMask::kAddress) && path == nullptr) return Errc::kInvalidArgument;
  const bool leaves_sqd = from == QpState::kSendQueueDrained && to == QpState::kReadyToSend;
  if (leaves_sqd && is_draining(*this)) return Errc::kInvalidArgument;
  const bool begins_to_drain = to == QpState::kSendQueueDrained && from != to;
  if (begins_to_drain) attributes_.sqd_notify = false;  // each drain needs its own request
  adopt(attributes_, mask, wanted);
  if (names(mask, QpMask::kAddress)) path_ = *path;
  path_.pkey = attributes_.pkey;
  publish_to_responder();
  attributes_.state = to;
  enter(from, to);
  follow_sides();
  return Ok{};
}

void QueuePairMachine::use_pkey(wire::PKey pkey) noexcept {
  attributes_.pkey = path_.pkey = pkey;
  sender_.use_pkey(pkey);
}

/// The responder reads these from its own state, which a peer process may share.
void QueuePairMachine::publish_to_responder() noexcept {
  ResponderState& responder = receiver_.state();
  // Only changes are stored: a requester may be reading a value that stays the same.
  const auto put = [](auto& field, auto value) {
    if (field != value) field = value;
  };
  put(responder.number, config_.number);
  put(responder.domain, config_.domain);
  put(responder.dest_qp, attributes_.dest_qp);
  put(responder.access, attributes_.access);
  put(responder.path_mtu, path_mtu());
  put(responder.min_rnr_timer, attributes_.min_rnr_timer);
  put(responder.replay_limit, attributes_.max_dest_read_atomic);
  put(responder.qkey, attributes_.qkey);
  put(responder.moves, receiver_.moves());
}

void QueuePairMachine::enter(QpState from, QpState to) noexcept {
  switch (to) {
    case QpState::kReset:
      reset();
      return;
    case QpState::kInit:
      return;
    case QpState::kReadyToReceive:
      if (from == QpState::kInit) start_responder();
      return;
    case QpState::kReadyToSend:
      start_sender(from == QpState::kReadyToReceive);
      return;
    case QpState::kSendQueueDrained:
      if (from == QpState::kSendQueueDrained) {
        start_sender(false);
      } else {
        drain_reported_ = false;
      }
      sender_.pause(true);
      return;
    case QpState::kSendQueueError:
      return;  // entered by a failure, never by modify
    case QpState::kError:
      if (from == QpState::kError) return;
      receiver_.rc().drop_answers();
      enter_error();
      return;
  }
}

void QueuePairMachine::start_responder() noexcept {
  established_ = false;
  receiver_.state() = ResponderState{};
  publish_to_responder();
  receiver_.state().expected_psn = attributes_.receive_psn;
}

void QueuePairMachine::start_sender(bool afresh) noexcept {
  if (is_reliable()) {
    // 4.096 us * 2^timeout (9.7.6.1.3); zero means that silence is never a loss.
    const auto timeout =
        attributes_.timeout == 0 ? Duration::zero() : Duration(4096LL << attributes_.timeout);
    const auto packets = [&](std::uint32_t limit, std::uint32_t octets) {
      return std::min(limit, std::max(octets / path_mtu(), 1U));
    };
    const RcRequester::Config config{
        .number = config_.number,
        .dest_qp = attributes_.dest_qp,
        .transport = transport_of(config_.type),
        .domain = config_.domain,
        .first_psn = attributes_.send_psn,
        .path_mtu = path_mtu(),
        .window_packets = packets(config_.window_packets, config_.window_octets),
        .read_chunk_packets = packets(config_.read_chunk_packets, config_.read_chunk_octets),
        .retry_limit = attributes_.retry_count,
        .rnr_retry_limit = attributes_.rnr_retry,
        .max_read_atomic = attributes_.max_read_atomic,
        .ack_timeout = timeout};
    afresh ? sender_.requester().start(config, path_)
           : sender_.requester().reconfigure(config, path_);
    sender_.requester().pause(false);
    return;
  }
  const UnreliableSender::Config config{.number = config_.number,
                                        .dest_qp = attributes_.dest_qp,
                                        .transport = transport_of(config_.type),
                                        .domain = config_.domain,
                                        .qkey = attributes_.qkey,
                                        .first_psn = attributes_.send_psn,
                                        .path_mtu = path_mtu(),
                                        .rate = config_.unreliable_rate};
  afresh ? sender_.unreliable().start(config, path_)
         : sender_.unreliable().reconfigure(config, path_);
  sender_.unreliable().pause(false);
  sender_.unreliable().resume();
}

/// Drops all queued requests without completions; completions in the completion queues stay.
void QueuePairMachine::reset() noexcept {
  sender_.queue().clear();
  receiver_.landing().clear();
  events_ = 0;
  established_ = false;
  attributes_ = QpAttributes{};
  path_ = Path{};
  receiver_.state() = ResponderState{};
  publish_to_responder();
  start_sender(true);  // clears an earlier failure; flush completions need the number
}

/// ERR: completes the sends, then the receives, each as flushed (10.3.1.7).
void QueuePairMachine::enter_error() noexcept {
  attributes_.state = QpState::kError;
  sender_.flush();
  receiver_.landing().flush();
  if (receiver_.is_shared()) raise(QpEvent::kLastWqeReached);
}

void QueuePairMachine::follow_sides() noexcept {
  if (state() == QpState::kReset || state() == QpState::kError) return;
  ResponderState& responder = receiver_.state();
  if (transport::has_failed(responder)) {
    if (responder.event_due) raise(responder.event);
    responder.event_due = false;
    enter_error();  // answers that the responder owes are still sent, its refusal last
    return;
  }
  if (sender_.has_failed()) {
    handle_send_failure();
    return;
  }
  if (state() == QpState::kSendQueueDrained && !drain_reported_ && !is_draining(*this)) {
    drain_reported_ = true;
    if (attributes_.sqd_notify) raise(QpEvent::kSendQueueDrained);
  }
}

void QueuePairMachine::handle(OwnerEvent event) noexcept {
  switch (event) {
    case OwnerEvent::kFirstRequest:
      return handle_first_request();
    case OwnerEvent::kSendFailed:
      return handle_send_failure();
    case OwnerEvent::kHalfFailed:
      receiver_.finish_failing();
      return follow_sides();
    case OwnerEvent::kSidesChanged:
      return follow_sides();
    case OwnerEvent::kCompletionOverrun:
      return handle_completion_overrun();
  }
}

void QueuePairMachine::handle_send_failure() noexcept {
  if (state() == QpState::kReset || state() == QpState::kError) return;
  if (is_reliable()) {
    receiver_.rc().drop_answers();
    enter_error();
  } else if (state() != QpState::kSendQueueError) {
    attributes_.state = QpState::kSendQueueError;
    sender_.flush();
  }
}

// ---- Events ----

void QueuePairMachine::raise(QpEvent event) noexcept {
  events_ = static_cast<std::uint8_t>(events_ | (1U << static_cast<unsigned>(event)));
}

std::optional<QpEvent> QueuePairMachine::poll_event() noexcept {
  if (events_ == 0) return std::nullopt;
  const auto lowest = static_cast<std::uint8_t>(std::countr_zero(events_));
  events_ = static_cast<std::uint8_t>(events_ & (events_ - 1));
  return QpEvent{lowest};
}

void QueuePairMachine::handle_memory_fault() noexcept {
  switch (work_) {
    case Work::kSending:
      sender_.handle_memory_fault();
      break;
    case Work::kAnswering:
      receiver_.rc().handle_fault_while_answering();
      break;
    case Work::kPlacing:
      sender_.requester().handle_fault_while_placing();
      break;
    case Work::kExecuting:
      if (is_reliable()) {
        receiver_.rc().handle_fault_while_executing();
      } else {
        end_half(receiver_.state(), receiver_.landing(),
                 {Verdict::kPlacementFailed, Reason::kMemoryGone});
      }
      break;
  }
  follow_sides();
}

void QueuePairMachine::handle_completion_overrun() noexcept {
  if (state() == QpState::kReset || state() == QpState::kError) return;
  raise(QpEvent::kFatal);
  receiver_.rc().drop_answers();
  enter_error();
}

// ---- Posting ----

Status QueuePairMachine::post_send(const SendRequest& request) noexcept {
  switch (state()) {
    case QpState::kReset:
    case QpState::kInit:
    case QpState::kReadyToReceive:
      return Errc::kInvalidArgument;
    case QpState::kReadyToSend:
    case QpState::kSendQueueDrained:
    case QpState::kSendQueueError:
    case QpState::kError:
      break;
  }
  const auto flaw = check_post(config_.type, request);
  if (!flaw) return flaw.error();
  const SendFlags more = config_.signal_all ? SendFlags::kSignaled : SendFlags::kNone;
  auto posted = sender_.queue().post(request, sender_.port().uncollected(), *flaw, more);
  if (!posted) return posted;
  if (state() == QpState::kError || state() == QpState::kSendQueueError) sender_.flush();
  sender_turn_ = true;  // a program waits for the request that it has just posted
  return Ok{};
}

// ---- Packets in ----

bool QueuePairMachine::lacks_receive_for(const wire::PacketView& packet) const noexcept {
  if (config_.type != QpType::kUd && config_.type != QpType::kUc) return false;
  if (!takes_requests(state()) || packet.transport() != transport_of(config_.type)) return false;
  const bool begins_send =
      packet.info().starts_message && !packet.info().has(wire::OpcodeInfo::kReth);
  // A WRITE takes its receive at the end, if it carries an immediate.
  const bool ends_write = packet.operation() == wire::Operation::kWriteOnlyImm ||
                          (packet.operation() == wire::Operation::kWriteLastImm &&
                           receiver_.state().inbound == Inbound::kWrite);
  return (begins_send || ends_write) && !receiver_.landing().has_receive();
}

std::optional<PacketDrop> QueuePairMachine::find_fault(const Arrival& arrival) const noexcept {
  if (!takes_requests(state())) return PacketDrop::kWrongState;
  return transport::find_fault(config_.type, path_, arrival);
}

bool QueuePairMachine::is_addressed_by(const Arrival& arrival) const noexcept {
  if (find_fault(arrival)) return false;
  if (!is_datagram(config_.type)) return true;
  // A congestion notification has no Q_Key.
  return arrival.packet.info().has(wire::OpcodeInfo::kDeth) &&
         arrival.packet.deth().qkey == receiver_.rc().state().qkey;
}

[[gnu::flatten]] void QueuePairMachine::handle_packet(Instant now, const Arrival& arrival,
                                                      SharedReceiveRing xrc_shared) noexcept {
  auto fault = find_fault(arrival);
  const bool is_response = arrival.packet.info().is_response;
  const bool expects_responses =
      state() == QpState::kReadyToSend || state() == QpState::kSendQueueDrained;
  if (!fault && is_response && !expects_responses) fault = PacketDrop::kWrongState;
  if (fault) {
    receiver_.count_dropped(*fault);
    if (*fault == PacketDrop::kWrongPartition) key_violation_ = KeyViolation::kPKey;
    return;
  }
  if (arrival.packet.opcode() == wire::Opcode::kCnp) {
    sender_.requester().handle_congestion_notification(now);
  } else if (is_response) {
    work_ = Work::kPlacing;
    sender_.requester().handle_response(now, arrival.packet);
  } else {
    work_ = Work::kExecuting;
    handle_first_request();
    receiver_.handle_request(arrival, xrc_shared);
    if (is_datagram(config_.type)) [[unlikely]]
      note_qkey_violation(arrival);
  }
  follow_sides();
}

/// After the responder has judged a datagram.
void QueuePairMachine::note_qkey_violation(const Arrival& arrival) noexcept {
  if (receiver_.state().failed || arrival.packet.deth().qkey == receiver_.state().qkey) return;
  key_violation_ = KeyViolation::kQKey;
}

std::size_t QueuePairMachine::handle_train(const TrainArrival& train) noexcept {
  if (config_.type != QpType::kRc || !takes_requests(state()) || !established_) return 0;
  if (train.source != path_.destination || train.destination != path_.source) return 0;
  work_ = Work::kExecuting;
  return receiver_.rc().handle_train(train, path_.pkey);
}

void QueuePairMachine::handle_first_request() noexcept {
  if (established_) return;
  established_ = true;
  const bool connected = !is_datagram(config_.type);
  if (connected && state() == QpState::kReadyToReceive) raise(QpEvent::kCommunicationEstablished);
}

void QueuePairMachine::handle_timeout(Instant now) noexcept {
  if (!is_sending(state()) || !is_reliable()) return;
  sender_.requester().handle_timeout(now);
  follow_sides();
}

Instant QueuePairMachine::next_timeout() const noexcept {
  if (!is_sending(state()) || sender_.is_elsewhere()) return Instant::never();
  return sender_.next_timeout();
}

// ---- Packets out ----

std::optional<UnreliableSender::Destination> QueuePairMachine::next_unreliable_destination(
    Instant now) const noexcept {
  if (is_reliable() || !is_sending(state()) || sender_.is_elsewhere()) return std::nullopt;
  return sender_.unreliable().next_destination(now);
}

QueuePairMachine::Transmit QueuePairMachine::poll_sender(Instant now,
                                                         const TrainRoom& room) noexcept {
  if (!is_sending(state()) || sender_.is_elsewhere()) return {};
  work_ = Work::kSending;
  Transmit transmit{.path = &path_};
  if (is_reliable()) {
    const TrainPart part = sender_.requester().poll_train(now, room);
    transmit.octets = part.octets;
    transmit.packets = part.packets;
    transmit.identification = part.identification;
  } else {
    transmit.octets =
        sender_.unreliable().poll_transmit(now, room.frame, room.identification, &transmit.path);
    transmit.packets = 1;
    transmit.identification = room.identification;
  }
  follow_sides();
  return transmit;
}

[[gnu::flatten]] QueuePairMachine::Transmit QueuePairMachine::poll_train(
    Instant now, const TrainRoom& room) noexcept {
  // Answers and requests alternate, so that neither a long READ nor a long WRITE delays the other.
  const bool owes = is_reliable() && state() != QpState::kReset && receiver_.rc().owes_answers();
  if (!owes || sender_turn_) {
    sender_turn_ = false;
    const Transmit transmit = poll_sender(now, room);
    if (transmit.octets > 0 || !owes) return transmit;
  }
  if (!receiver_.rc().owes_answers())
    return {};  // a failure of the requester has ended the connection
  sender_turn_ = true;
  work_ = Work::kAnswering;
  const Transmit transmit{
      .octets = receiver_.rc().poll_transmit(path_, room.frame, room.identification),
      .packets = 1,
      .identification = room.identification,
      .path = &path_};
  follow_sides();
  return transmit;
}

}  // namespace verbatim::transport
