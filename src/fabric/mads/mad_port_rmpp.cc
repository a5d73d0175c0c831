// SPDX-License-Identifier: Apache-2.0
// What a MadPort does with the segments of messages, and with acknowledgements, STOPs and ABORTs.
#include <algorithm>
#include <span>
#include <utility>

#include "base/byte_order.h"
#include "fabric/mads/mad_arrival.h"
#include "fabric/mads/mad_port.h"
#include "fabric/mads/mad_rules.h"

namespace verbatim::fabric {

using wire::RmppStatus;
using wire::RmppType;

namespace {

/// An ABORT, or the STOP of a receiver without room (IBA Vol 1, 13.6.2.1).
[[nodiscard]] wire::Rmpp end_of_message(RmppStatus status) noexcept {
  const bool stops = status == RmppStatus::kResourcesExhausted;
  return {.type = stops ? RmppType::kStop : RmppType::kAbort, .status = status};
}

/// Whether a segment of an unknown message is looked at. A later segment is dropped, as in Linux:
/// its message has ended, or its first segment is still to come. One that contradicts itself is
/// refused by the receiver.
[[nodiscard]] bool may_begin_message(const wire::MadView& mad) noexcept {
  const wire::RmppView header(mad);
  return header.segment() == 1 || header.is_first() || header.status() != RmppStatus::kNormal;
}

}  // namespace

MadVerdict MadPort::handle_rmpp(Instant now, const Arrival& arrival) {
  const wire::RmppView header(arrival.mad);
  if (header.version() != wire::Rmpp::kVersion) {
    return refuse(arrival, RmppStatus::kUnsupportedVersion);
  }
  switch (header.type()) {
    case RmppType::kData:
      return handle_data(now, arrival);
    case RmppType::kAck:
      return handle_ack(now, arrival);
    case RmppType::kStop:
    case RmppType::kAbort:
      return handle_end(arrival);
    case RmppType::kNone:
      break;
  }
  return refuse(arrival, RmppStatus::kBadType);
}

MadVerdict MadPort::refuse(const Arrival& arrival, RmppStatus status) {
  abandon_send(arrival.message());
  answer(arrival, end_of_message(status));
  return MadVerdict::kSegment;
}

MadVerdict MadPort::handle_data(Instant now, const Arrival& arrival) {
  const ReceptionKey key = arrival.reception();
  const bool responds = is_response(arrival.mad);
  Reception* reception = receptions_.find(key);
  if (reception == nullptr) {
    if (responds && !sends_.contains(arrival.request())) return MadVerdict::kUnmatched;
    if (!may_begin_message(arrival.mad)) return MadVerdict::kUnmatched;
    if (receptions_.size() >= kReceptionsMax) receptions_.erase_earliest();
    reception = &receptions_.add(
        key, Reception{.receiver = RmppReceiver(kMessageOctetsMax), .held = HeldOctets(budget_)});
  }
  RmppReceiver& receiver = reception->receiver;
  const auto step = receiver.handle_segment(arrival.mad);
  if (!step || !reception->held.hold(receiver.held_octets())) {
    const RmppStatus status = step ? RmppStatus::kResourcesExhausted : step.error();
    answer(arrival, end_of_message(status));
    receptions_.erase(key);
    return MadVerdict::kSegment;
  }
  if (step->must_acknowledge) answer(arrival, receiver.acknowledgement());
  if (step->is_complete) return complete(now, arrival, *reception);
  if (!step->is_new) return MadVerdict::kSegment;
  receptions_.set_deadline(key, now + kReceptionTimeout);
  if (responds) extend(now, arrival.request());
  return MadVerdict::kSegment;
}

MadVerdict MadPort::complete(Instant now, const Arrival& arrival, Reception& reception) {
  receptions_.set_deadline(arrival.reception(), now + kReceptionRest);
  std::vector<std::byte> message = reception.receiver.take_message();
  reception.held.release();
  if (is_response(arrival.mad)) {
    if (!sends_.contains(arrival.request())) return MadVerdict::kUnmatched;
    sends_.erase(arrival.request());
  }
  return deliver(arrival, std::move(message));
}

/// An answer of many segments may take longer than its requester would wait for the first one.
void MadPort::extend(Instant now, const SendKey& request) {
  const Send* const send = sends_.find(request);
  if (send == nullptr || (send->segments && !send->segments->is_finished())) return;
  sends_.set_deadline(request, now + patience_of(*send));
}

MadVerdict MadPort::handle_ack(Instant now, const Arrival& arrival) {
  const wire::RmppView header(arrival.mad);
  if (header.status() != RmppStatus::kNormal) return refuse(arrival, RmppStatus::kBadStatus);
  const SendKey key = arrival.message();
  Send* const send = sends_.find(key);
  if (send == nullptr || !send->segments) return MadVerdict::kSegment;  // finished long ago
  const auto progress = send->segments->handle_ack(header.segment(), header.extent());
  if (!progress) return refuse(arrival, progress.error());
  switch (*progress) {
    case RmppProgress::kNone:
      break;
    case RmppProgress::kSome:
      send->retries_left = send->mad.retries;
      if (send->segments->has_next()) list(key, *send);
      break;
    case RmppProgress::kFinished:
      if (key.is_response || send->mad.timeout.count() == 0) {
        sends_.erase(key);
      } else {
        sends_.set_deadline(key, now + patience_of(*send));
      }
      break;
  }
  return MadVerdict::kSegment;
}

MadVerdict MadPort::handle_end(const Arrival& arrival) {
  const wire::RmppView header(arrival.mad);
  const auto status = static_cast<std::uint8_t>(header.status());
  const bool is_stop = header.type() == RmppType::kStop;
  const bool is_valid = is_stop ? header.status() == RmppStatus::kResourcesExhausted
                                : status >= wire::kRmppAbortMin && status <= wire::kRmppAbortMax;
  if (!is_valid) return refuse(arrival, RmppStatus::kBadStatus);
  abandon_send(arrival.message());
  // The other end may have been the sender: then what it has sent so far is worthless.
  receptions_.erase(arrival.reception());
  return MadVerdict::kSegment;
}

/// A message that its receiver does not take. A program that waits for an answer to it learns of it
/// like of a missing answer.
void MadPort::abandon_send(const SendKey& key) {
  const Send* const send = sends_.find(key);
  if (send == nullptr || !send->segments || send->segments->is_finished()) return;
  if (!key.is_response && send->mad.timeout.count() != 0) return fail(key);
  ++counters_.unanswered;
  sends_.erase(key);
}

void MadPort::answer(const Arrival& arrival, const wire::Rmpp& rmpp) {
  if (ready_.size() >= kWaitingPacketsMax) return;  // the other end repeats what it has sent
  const ManagementPacket& packet = arrival.packet;
  ManagementPacket reply{.source = packet.destination,
                         .destination = packet.source,
                         .level = packet.level,
                         .source_qp = packet.dest_qp,
                         .dest_qp = packet.source_qp,
                         .pkey = packet.pkey,
                         .qkey = wire::QKey::kGsi,
                         .global_route = packet.global_route};
  if (reply.global_route) {
    std::swap(reply.global_route->source, reply.global_route->destination);
  }
  const auto headers = arrival.mad.octets().first(wire::header_octets_of(arrival.mad.mgmt_class()));
  std::ranges::copy(headers, reply.mad.begin());
  const auto octets = std::span<std::byte, wire::Mad::kSize>(reply.mad);
  const auto method = static_cast<std::uint8_t>(arrival.mad.method());
  store_be<std::uint8_t, 3>(octets, method ^ 0x80);
  store_be<std::uint16_t, 4>(octets, 0);
  rmpp.emit(octets);
  ready_.emplace_back(reply);
}

}  // namespace verbatim::fabric
