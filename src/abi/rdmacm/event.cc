// SPDX-License-Identifier: Apache-2.0
// rdma_get_cm_event(3), rdma_ack_cm_event(3): what the library does about an event before the
// program sees it.
#include "abi/border.h"
#include "abi/rdmacm/functions.h"
#include "abi/rdmacm/id.h"
#include "abi/rdmacm/multicast.h"
#include "abi/rdmacm/newer.h"

namespace verbatim::abi {
namespace {

enum class Shown : std::uint8_t { kYes, kNo };

/// The peer has accepted: the queue pair goes to RTS, then the peer is told. Programs that bring
/// their own queue pair do both themselves.
void present_reply(IdHandle& id, EventHandle& event) {
  if (id.id.qp == nullptr) return;
  int refused = modify_to_init(id);
  if (refused == 0) refused = modify_to_rtr(id, {});
  if (refused == 0) refused = modify_to_rts(id, {});
  if (refused == 0) {
    const Status told = id.device->with_agent(
        [&](cm::Agent& agent, Instant now) { return agent.establish(now, id.communication); });
    if (!told) refused = to_errno(told.error());
  }
  if (refused == 0) {
    event.event.event = RDMA_CM_EVENT_ESTABLISHED;
    id.state = IdState::kConnected;
    return;
  }
  (void)modify_to_error(id);  // whatever state it is in, the connection has failed
  (void)id.device->with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.reject(now, id.communication, {}); });
  event.event.event = RDMA_CM_EVENT_CONNECT_ERROR;
  event.event.status = -refused;
  id.failed_to_connect = true;
}

/// The id of a request is the program's from here on.
void present_request(IdHandle& listener, EventHandle& event) {
  IdHandle& id = handle_of(event.event.id);
  (void)id.device->with_agent(
      [&](cm::Agent& agent, Instant) { return agent.take(id.communication); });
  if (listener.is_synchronous()) (void)cm_functions::migrate_id(&id.id, nullptr);
}

Shown present(EventHandle& event) {
  IdHandle& id = handle_of(event.event.id);
  switch (static_cast<int>(event.event.event)) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      present_request(*event.counted, event);
      return Shown::kYes;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      present_reply(id, event);
      return Shown::kYes;
    case RDMA_CM_EVENT_ESTABLISHED:
      id.state = IdState::kConnected;
      return Shown::kYes;
    case RDMA_CM_EVENT_REJECTED:
      if (id.failed_to_connect) return Shown::kNo;
      (void)modify_to_error(id);  // it may have none
      id.state = IdState::kDisconnected;
      return Shown::kYes;
    case RDMA_CM_EVENT_DISCONNECTED:
      if (id.failed_to_connect) return Shown::kNo;
      id.state = IdState::kDisconnected;
      return Shown::kYes;
    case RDMA_CM_EVENT_MULTICAST_JOIN:
      present_join(id, event);
      return Shown::kYes;
    default:
      return Shown::kYes;
  }
}

/// The next event, counted as given; null when there is none.
EventHandle* take_from(CmChannel& channel) {
  const std::lock_guard lock(events_mutex());
  EventHandle* event = channel.pop();
  if (event != nullptr) ++event->counted->events_given;
  return event;
}

/// The next event that the program is shown, waited for; null with errno set when there is none.
EventHandle* next_shown(CmChannel& channel) {
  for (;;) {
    EventHandle* next = take_from(channel);
    if (next == nullptr) {
      if (!channel.wait()) return nullptr;
    } else if (present(*next) == Shown::kYes) {
      return next;
    } else {
      (void)cm_functions::ack_cm_event(&next->event);
    }
  }
}

}  // namespace

namespace cm_functions {

int get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  if (channel == nullptr || event == nullptr) return fail(EINVAL);
  CmChannel& from = *reinterpret_cast<CmChannel*>(channel);
  from.enter();
  EventHandle* next = next_shown(from);
  from.leave();
  if (next == nullptr) return -1;
  *event = &next->event;
  return 0;
}

int ack_cm_event(rdma_cm_event* event) {
  if (event == nullptr) return fail(EINVAL);
  auto* handle = reinterpret_cast<EventHandle*>(event);
  {
    const std::lock_guard lock(events_mutex());
    ++handle->counted->events_acknowledged;
    events_acknowledged().notify_all();
  }
  delete handle;
  return 0;
}

int write_cm_event(rdma_cm_id* id, rdma_cm_event_type event, int status, uint64_t arg) {
  if (static_cast<int>(event) != kEventUser) return fail(EINVAL);
  IdHandle& handle = handle_of(id);
  EventHandle* made = make_event(handle, event, status);
  std::memcpy(&made->event.param, &arg, sizeof arg);
  abi::notify(handle, made);
  return 0;
}

}  // namespace cm_functions
}  // namespace verbatim::abi
