// SPDX-License-Identifier: Apache-2.0
// How an id gets events, and its actions before they are delivered to the program.
#include <utility>

#include "connect/device.h"
#include "connect/id.h"
#include "connect/lock.h"
#include "wire/cm/ip_cm_header.h"

namespace verbatim::connect {
namespace {

/// The ends of a request between two GIDs.
Route ib_ends_of(const cm::AgentEvent& request) {
  const auto* req = request.as<wire::CmReq>();
  const auto service = static_cast<std::uint64_t>(request.service_id);
  IbPart part{.service = service, .service_mask = ~std::uint64_t{0}};
  if (req != nullptr) part.pkey = req->pkey;
  Route ends;
  ends.source = {.address = request.address.local,
                 .port = static_cast<std::uint16_t>(service),
                 .is_ipv4 = false,
                 .ib = part};
  ends.destination = {
      .address = request.address.remote, .is_ipv4 = false, .ib = IbPart{.pkey = part.pkey}};
  ends.local = request.address.local;
  ends.remote = request.address.remote;
  return ends;
}

/// The ends that a request names.
Route ends_of(const wire::IpCmHeader& header, const cm::AgentEvent& request, std::uint32_t scope) {
  const bool is_ipv4 = header.ip_version == wire::IpCmHeader::IpVersion::k4;
  const auto port = static_cast<std::uint64_t>(request.service_id) & 0xffff;
  Route ends;
  ends.source = {
      .address = header.destination, .port = static_cast<std::uint16_t>(port), .is_ipv4 = is_ipv4};
  ends.destination = {.address = header.source, .port = header.source_port, .is_ipv4 = is_ipv4};
  for (IpEndpoint* end : {&ends.source, &ends.destination}) {
    if (!is_ipv4 && end->is_link_local()) end->scope = scope;
  }
  ends.local = request.address.local;
  ends.remote = request.address.remote;
  return ends;
}

}  // namespace

// ---- In, with connections_mutex() held ----

void Id::push(std::unique_ptr<Event> event) { queue_->push(std::move(event)); }

void Id::tell(EventKind kind) { push(std::make_unique<Event>(kind, *this)); }

void Id::tell_failure(EventKind kind, Error error) {
  auto event = std::make_unique<Event>(kind, *this);
  event->error = error;
  push(std::move(event));
}

void Id::handle(const cm::AgentEvent& event) {
  if (event.kind == cm::AgentEventKind::kReply) {
    if (const auto* reply = event.as<wire::CmRep>()) terms_.remote_ece = reply->ece;
  }
  if (auto made = event_of(*this, event)) push(std::move(made));
}

std::unique_ptr<Event> Id::event_of(Id& id, const cm::AgentEvent& from) {
  auto event = std::make_unique<Event>(EventKind::kUnreachable, id);
  event->cause = from;
  switch (from.kind) {
    case cm::AgentEventKind::kReply:
      event->kind = EventKind::kReply;
      return event;
    case cm::AgentEventKind::kServiceReply: {
      const auto* reply = from.as<wire::CmSidrRep>();
      if (reply == nullptr) {
        event->error = Error::kTimedOut;
        return event;
      }
      if (reply->status == wire::SidrStatus::kValid) event->kind = EventKind::kEstablished;
      event->number = static_cast<std::uint16_t>(reply->status);
      return event;
    }
    case cm::AgentEventKind::kEstablished:
      event->kind = EventKind::kEstablished;
      return event;
    case cm::AgentEventKind::kRejected:
      event->kind = EventKind::kRejected;
      event->number = static_cast<std::uint16_t>(from.reason);
      return event;
    case cm::AgentEventKind::kDisconnected:
      event->kind = EventKind::kDisconnected;
      if (!from.message) event->error = Error::kTimedOut;
      return event;
    case cm::AgentEventKind::kUnreachable:
    case cm::AgentEventKind::kServiceUnreachable:
      event->error = Error::kTimedOut;
      return event;
    case cm::AgentEventKind::kTimewaitExit:
      event->kind = EventKind::kTimewaitExit;
      return event;
    case cm::AgentEventKind::kDelayed:
    case cm::AgentEventKind::kConnectRequest:
    case cm::AgentEventKind::kServiceRequest:
      return nullptr;
  }
  return nullptr;
}

/// Creates the id of the request. It belongs to the event until the program takes the event.
bool Id::handle_request(Device& device, const cm::AgentEvent& event) {
  const bool is_ib = listening_.binding().source.ib.has_value();
  const auto header = wire::IpCmHeader::parse(event.private_data());
  if (!is_ib && !header) return false;
  const Route ends =
      is_ib ? ib_ends_of(event) : ends_of(*header, event, device.port().interface_index);
  std::unique_ptr<Id> made(new Id(*this, event, ends));
  made->attach_to(device);
  device.add_communication(event.id, *made);
  auto request = std::make_unique<Event>(EventKind::kRequest, *made);
  request->counted = this;
  request->cause = event;
  request->made = std::move(made);
  push(std::move(request));
  return true;
}

// ---- Out, without a lock ----

void Id::post(const Event::OfBorder& of_border) {
  auto event = std::make_unique<Event>(EventKind::kOfBorder, *this);
  event->of_border = of_border;
  const LockGuard lock(connections_mutex());
  push(std::move(event));
}

void Id::move_to(EventQueue& queue) {
  {
    const LockGuard lock(connections_mutex());
    change_queue(queue);
  }
  await_acknowledgements();
}

/// The id of a request moves with the request: the program must not get another event of it first.
void Id::change_queue(EventQueue& queue) {
  EventQueue* const before = std::exchange(queue_, &queue);
  for (std::unique_ptr<Event>& event : before->extract(*this)) {
    Id* const made = event->made.get();
    queue.push(std::move(event));
    if (made != nullptr) made->change_queue(queue);
  }
}

void Id::acknowledge(const Event& event) noexcept {
  const LockGuard lock(connections_mutex());
  ++event.counted->events_acknowledged_;
  connect::events_acknowledged().notify_all();
}

bool Id::prepare(Event& event) {
  Id& id = *event.id;
  switch (event.kind) {
    case EventKind::kRequest:  // the id belongs to the program from here on
      (void)id.ends_.device->with_agent(
          [&](cm::Agent& agent, Instant) { return agent.take(id.communication_); });
      return true;
    case EventKind::kReply:
      id.prepare_reply(event);
      return true;
    case EventKind::kEstablished:
      id.state_ = IdState::kConnected;
      return true;
    case EventKind::kRejected:
      if (id.failed_to_connect_) return false;
      (void)id.fail_pair();  // fails if there is none
      id.state_ = IdState::kDisconnected;
      return true;
    case EventKind::kDisconnected:
      if (id.failed_to_connect_) return false;
      id.state_ = IdState::kDisconnected;
      return true;
    case EventKind::kJoined:
      id.prepare_join(event);
      return true;
    case EventKind::kAddressResolved:
    case EventKind::kAddressFailed:
    case EventKind::kRouteResolved:
    case EventKind::kRouteFailed:
    case EventKind::kConnectFailed:
    case EventKind::kUnreachable:
    case EventKind::kTimewaitExit:
    case EventKind::kDeviceRemoved:
    case EventKind::kAddressChanged:
    case EventKind::kJoinFailed:
    case EventKind::kOfBorder:
      return true;
  }
  return true;
}

/// The peer has accepted. The queue pair enters RTS, then an RTU is sent. Programs that created the
/// queue pair themselves do both.
void Id::prepare_reply(Event& event) {
  if (!has_pair()) return;
  Device& device = *ends_.device;
  Outcome outcome = make_ready({});
  if (outcome) {
    outcome = device.with_agent(
        [&](cm::Agent& agent, Instant now) { return agent.establish(now, communication_); });
  }
  if (outcome) {
    event.kind = EventKind::kEstablished;
    state_ = IdState::kConnected;
    return;
  }
  (void)fail_pair();  // the connection has failed, so the outcome does not matter
  (void)device.with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.reject(now, communication_, {}); });
  event.kind = EventKind::kConnectFailed;
  event.error = outcome.error();
  failed_to_connect_ = true;
}

/// Attaches the queue pair to the group. If that fails, the event becomes kJoinFailed.
void Id::prepare_join(Event& event) {
  if (event.record) groups_.join(event.group);
  if (pair_ == nullptr) return;
  const Outcome attached = groups_.attach(event.group, *pair_);
  if (attached) return;
  event.kind = EventKind::kJoinFailed;
  event.error = attached.error();
}

}  // namespace verbatim::connect
