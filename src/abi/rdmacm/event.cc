// SPDX-License-Identifier: Apache-2.0
// rdma_get_cm_event(3), rdma_ack_cm_event(3).
#include "abi/rdmacm/event.h"

#include <cstring>
#include <utility>

#include "abi/rdmacm/entry.h"
#include "abi/rdmacm/functions.h"
#include "abi/rdmacm/id.h"
#include "abi/rdmacm/newer.h"
#include "wire/cm/ip_cm_header.h"

namespace verbatim::abi {
namespace {

constexpr std::uint32_t kMulticastQpn = 0x00ff'ffff;
static_assert(static_cast<std::uint32_t>(connect::kDatagramQKey) == RDMA_UDP_QKEY);

rdma_cm_event_type type_of(const connect::Event& event) noexcept {
  using connect::EventKind;
  switch (event.kind) {
    case EventKind::kAddressResolved:
      return RDMA_CM_EVENT_ADDR_RESOLVED;
    case EventKind::kAddressFailed:
      return RDMA_CM_EVENT_ADDR_ERROR;
    case EventKind::kRouteResolved:
      return RDMA_CM_EVENT_ROUTE_RESOLVED;
    case EventKind::kRouteFailed:
      return RDMA_CM_EVENT_ROUTE_ERROR;
    case EventKind::kRequest:
      return RDMA_CM_EVENT_CONNECT_REQUEST;
    case EventKind::kReply:
      return RDMA_CM_EVENT_CONNECT_RESPONSE;
    case EventKind::kEstablished:
      return RDMA_CM_EVENT_ESTABLISHED;
    case EventKind::kConnectFailed:
      return RDMA_CM_EVENT_CONNECT_ERROR;
    case EventKind::kUnreachable:
      return RDMA_CM_EVENT_UNREACHABLE;
    case EventKind::kRejected:
      return RDMA_CM_EVENT_REJECTED;
    case EventKind::kDisconnected:
      return RDMA_CM_EVENT_DISCONNECTED;
    case EventKind::kTimewaitExit:
      return RDMA_CM_EVENT_TIMEWAIT_EXIT;
    case EventKind::kDeviceRemoved:
      return RDMA_CM_EVENT_DEVICE_REMOVAL;
    case EventKind::kAddressChanged:
      return RDMA_CM_EVENT_ADDR_CHANGE;
    case EventKind::kJoined:
      return RDMA_CM_EVENT_MULTICAST_JOIN;
    case EventKind::kJoinFailed:
      return RDMA_CM_EVENT_MULTICAST_ERROR;
    case EventKind::kOfBorder:
      return static_cast<rdma_cm_event_type>(event.of_border.kind);
  }
  return RDMA_CM_EVENT_CONNECT_ERROR;
}

int status_of(const connect::Event& event) noexcept {
  if (event.kind == connect::EventKind::kOfBorder) return event.of_border.status;
  return event.error ? -to_errno(*event.error) : event.number;
}

/// The program's part of the private data of a message.
template <typename Parameters>
void set_private_data(Parameters& to, const cm::AgentEvent& from, std::size_t skipped) noexcept {
  const auto data = from.private_data();
  if (data.size() <= skipped) return;
  to.private_data = data.data() + skipped;
  to.private_data_len = static_cast<std::uint8_t>(data.size() - skipped);
}

/// The peer's responder resources limit this end's initiator depth, and the other way round.
template <typename Message>
void set_parameters(rdma_conn_param& to, const Message& message) noexcept {
  to.responder_resources = message.initiator_depth;
  to.initiator_depth = message.responder_resources;
  to.flow_control = message.end_to_end_flow_control ? 1 : 0;
  to.rnr_retry_count = message.rnr_retry_count;
  to.srq = message.uses_srq ? 1 : 0;
  to.qp_num = static_cast<std::uint32_t>(message.local_qpn);
}

/// The parameters in the peer's message.
void set_parameters(rdma_cm_event& to, const IdHandle& id, const cm::AgentEvent& from) {
  const std::size_t header = id.object->ends().source.ib ? 0 : wire::IpCmHeader::kSize;
  if (from.as<wire::CmSidrReq>() != nullptr) {
    set_private_data(to.param.ud, from, header);
    to.param.ud.ah_attr = address_vector(id, from.address);
  } else if (const auto* answer = from.as<wire::CmSidrRep>()) {
    set_private_data(to.param.ud, from, 0);
    to.param.ud.qp_num = static_cast<std::uint32_t>(answer->qpn);
    to.param.ud.qkey = static_cast<std::uint32_t>(answer->qkey);
    to.param.ud.ah_attr = address_vector(id, from.address);
  } else if (const auto* request = from.as<wire::CmReq>()) {
    set_private_data(to.param.conn, from, header);
    set_parameters(to.param.conn, *request);
    to.param.conn.retry_count = request->retry_count;
  } else {
    set_private_data(to.param.conn, from, 0);
    if (const auto* reply = from.as<wire::CmRep>()) set_parameters(to.param.conn, *reply);
  }
}

void set_group(rdma_ud_param& to, const IdHandle& id, const connect::Event& from) {
  to.private_data = from.context;
  to.ah_attr = address_vector(id, from);
  to.qp_num = kMulticastQpn;
  to.qkey = from.record ? static_cast<std::uint32_t>(from.record->qkey) : RDMA_UDP_QKEY;
}

/// Makes the handle of the id of a request that the program takes from `channel`.
void adopt(connect::Event& request, rdma_event_channel& channel) {
  const rdma_cm_id& listener = handle_of(*request.counted).id;
  auto* const made = new IdHandle;
  made->id.context = listener.context;
  made->id.ps = listener.ps;
  made->id.qp_type = listener.qp_type;
  made->id.channel = &channel;
  made->object = std::move(request.made);
  made->object->adopt(made, made->pair);
  LiveHandles::instance().add(made);
}

void show_request(IdHandle& made, IdHandle& listener, rdma_cm_event& shown) {
  publish(made);
  if (listener.is_synchronous()) (void)cm_functions::migrate_id(&made.id, nullptr);
  shown.listen_id = &listener.id;
}

/// Makes the handle of an event that is delivered to the program.
EventHandle* show(std::unique_ptr<connect::Event> event) {
  IdHandle& id = handle_of(*event->id);
  auto* const handle = new EventHandle;
  rdma_cm_event& shown = handle->event;
  shown.id = &id.id;
  shown.event = type_of(*event);
  shown.status = status_of(*event);
  if (event->kind == connect::EventKind::kAddressResolved) publish(id);
  if (event->kind == connect::EventKind::kRouteResolved) publish_path(id);
  if (event->kind == connect::EventKind::kRequest) {
    show_request(id, handle_of(*event->counted), shown);
  }
  if (event->cause) set_parameters(shown, id, *event->cause);
  const bool is_of_group =
      event->kind == connect::EventKind::kJoined || event->kind == connect::EventKind::kJoinFailed;
  if (is_of_group) set_group(shown.param.ud, id, *event);
  if (event->kind == connect::EventKind::kOfBorder) {
    std::memcpy(&shown.param, &event->of_border.argument, sizeof event->of_border.argument);
  }
  handle->object = std::move(event);
  return handle;
}

std::unique_ptr<connect::Event> take_from(CmChannel& channel) {
  return connect::Id::take_event(channel.queue,
                                 [&](connect::Event& request) { adopt(request, channel.channel); });
}

connect::Outcome wait_for_event(connect::EventQueue& queue) {
  const CmEntry::Waiting waiting;
  return queue.wait();
}

/// Waits for the next event that is delivered to the program.
Expected<EventHandle*, connect::Error> next_shown(CmChannel& channel) {
  for (;;) {
    auto next = take_from(channel);
    if (next == nullptr) {
      if (auto waited = wait_for_event(channel.queue); !waited) return waited.error();
    } else if (connect::Id::prepare(*next)) {
      return show(std::move(next));
    } else {
      connect::Id::acknowledge(*next);
    }
  }
}

}  // namespace

namespace cm_functions {

int get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  if (channel == nullptr || event == nullptr) return fail(EINVAL);
  CmChannel& from = handle_of(channel);
  from.queue.enter();
  const auto next = next_shown(from);
  from.queue.leave();
  if (!next) return fail(to_errno(next.error()));
  *event = &(*next)->event;
  return 0;
}

int ack_cm_event(rdma_cm_event* event) {
  if (event == nullptr) return fail(EINVAL);
  const std::unique_ptr<EventHandle> handle(reinterpret_cast<EventHandle*>(event));
  connect::Id::acknowledge(*handle->object);
  return 0;
}

int write_cm_event(rdma_cm_id* id, rdma_cm_event_type event, int status, uint64_t arg) {
  if (static_cast<int>(event) != kEventUser) return fail(EINVAL);
  object_of(id).post({.kind = static_cast<int>(event), .status = status, .argument = arg});
  return 0;
}

}  // namespace cm_functions
}  // namespace verbatim::abi
