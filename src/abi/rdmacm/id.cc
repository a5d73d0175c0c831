// SPDX-License-Identifier: Apache-2.0
// rdma_create_id(3), rdma_destroy_id(3), rdma_migrate_id(3), rdma_set_option(3),
// rdma_get_devices(3), rdma_get_src_port(3).
#include "abi/rdmacm/id.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "abi/border.h"
#include "abi/rdmacm/functions.h"
#include "abi/rdmacm/multicast.h"
#include "abi/rdmacm/neighbours.h"
#include "abi/rdmacm/wildcards.h"
#include "base/prng.h"

namespace verbatim::abi {

wire::Psn random_psn() noexcept {
  static std::atomic<std::uint64_t> count{0};
  const auto at = static_cast<std::uint64_t>(device::now().since_start().count());
  return wire::Psn(static_cast<std::uint32_t>(Prng(at + (++count << 40)).next()));
}

void notify(IdHandle& id, EventHandle* event) {
  const std::lock_guard lock(events_mutex());
  push(id, event);
}

void push(IdHandle& id, EventHandle* event) {
  if (id.channel != nullptr) {
    id.channel->push(event);
  } else {
    delete event;
  }
}

EventHandle* make_event(IdHandle& id, rdma_cm_event_type kind, int status) {
  auto* event = new EventHandle;
  event->event.id = &id.id;
  event->event.event = kind;
  event->event.status = status;
  event->counted = &id;
  return event;
}

ibv_ah_attr address_vector(const IdHandle& id, const cm::Address& way) noexcept {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  std::memcpy(attr.grh.dgid.raw, way.remote.octets.data(), sizeof attr.grh.dgid.raw);
  attr.grh.sgid_index = static_cast<std::uint8_t>(id.device->index_of(way.local).value_or(0));
  attr.grh.hop_limit = 64;
  attr.grh.traffic_class = id.traffic_class;
  return attr;
}

void attach(IdHandle& id, CmDevice& device) {
  const std::lock_guard lock(events_mutex());
  attach_held(id, device);
}

void attach_held(IdHandle& id, CmDevice& device) {
  if (id.device != nullptr) id.device->users.erase(&id);
  device.users[&id] = id.local_gid;
  id.device = &device;
  id.id.verbs = device.verbs();
  id.id.port_num = 1;
  if (id.id.pd == nullptr) id.id.pd = device.pd();
  publish_addresses(id);
}

void publish_addresses(IdHandle& id) noexcept {
  rdma_addr& addr = id.id.route.addr;
  store(id.source, addr.src_storage);
  if (id.destination.port != 0 || !id.destination.is_any()) store(id.destination, addr.dst_storage);
  rdma_ib_addr& ib = addr.addr.ibaddr;
  std::memcpy(ib.sgid.raw, id.local_gid.octets.data(), sizeof ib.sgid.raw);
  std::memcpy(ib.dgid.raw, id.remote_gid.octets.data(), sizeof ib.dgid.raw);
  ib.pkey = 0xffff;
}

int complete(IdHandle& id) {
  if (!id.is_synchronous()) return 0;
  if (id.id.event != nullptr) {
    (void)cm_functions::ack_cm_event(id.id.event);
    id.id.event = nullptr;
  }
  if (cm_functions::get_cm_event(id.id.channel, &id.id.event) != 0) return -1;
  const int status = id.id.event->status;
  if (status == 0) return 0;
  if (id.id.event->event == RDMA_CM_EVENT_REJECTED) return fail(ECONNREFUSED);
  return fail(status < 0 ? -status : ECONNREFUSED);
}

namespace {

/// Takes the id out of the adapters: from then on nothing happens to it.
void leave_devices(IdHandle& id) {
  stop_listening(id);
  if (id.device != nullptr && id.communication != wire::CommId{}) {
    (void)id.device->with_agent([&](cm::Agent& agent, Instant now) {
      id.device->communications.erase(static_cast<std::uint32_t>(id.communication));
      return agent.destroy(now, id.communication);
    });
  }
  id.communication = {};
  const std::lock_guard lock(events_mutex());
  if (id.device != nullptr) id.device->users.erase(&id);
}

/// Throws away what the program was not told yet. Ids of requests among it are handed back: nobody
/// else knows them.
std::vector<IdHandle*> drop_events(IdHandle& id) {
  std::vector<IdHandle*> unknown;
  const std::lock_guard lock(events_mutex());
  id.channel->extract([&](const EventHandle& event) { return event.counted == &id; },
                      [&](EventHandle* event) {
                        if (event->event.id != &id.id) {
                          unknown.push_back(&handle_of(event->event.id));
                        }
                        delete event;
                      });
  return unknown;
}

void await_acknowledgements(IdHandle& id) {
  const std::lock_guard lock(events_mutex());
  events_mutex().wait(events_acknowledged(),
                      [&] { return id.events_acknowledged == id.events_given; });
}

void destroy(IdHandle& id) {
  if (id.is_synchronous() && id.id.event != nullptr) {
    (void)cm_functions::ack_cm_event(id.id.event);
    id.id.event = nullptr;
  }
  stop_seeking(id);
  leave_all_groups(id);
  leave_devices(id);
  for (IdHandle* request : drop_events(id)) destroy(*request);
  await_acknowledgements(id);
  give_port_back(id);
  if (id.resolved_info != nullptr) cm_functions::freeaddrinfo(id.resolved_info);
  discard(&id);
}

/// The channel that events of an id go to: the program's, or one of its own.
Status give_channel(IdHandle& id, rdma_event_channel* channel) {
  if (channel != nullptr) {
    id.channel = reinterpret_cast<CmChannel*>(channel);
    id.own_channel.reset();
  } else {
    auto own = std::make_unique<CmChannel>();
    if (auto opened = own->open(); !opened) return opened;
    id.channel = own.get();
    id.own_channel = std::move(own);
  }
  id.id.channel = id.channel->public_part();
  return Ok{};
}

bool is_port_space(rdma_port_space space) noexcept {
  switch (space) {
    case RDMA_PS_IPOIB:
    case RDMA_PS_TCP:
    case RDMA_PS_UDP:
    case RDMA_PS_IB:
      return true;
  }
  return false;
}

template <typename Value>
bool read_option(const void* value, std::size_t octets, Value& to) noexcept {
  if (value == nullptr || octets != sizeof to) return false;
  std::memcpy(&to, value, sizeof to);
  return true;
}

int set_id_option(IdHandle& id, int option, const void* value, std::size_t octets) noexcept {
  std::uint8_t small = 0;
  int number = 0;
  switch (option) {
    case RDMA_OPTION_ID_TOS:
      if (!read_option(value, octets, small)) return fail(EINVAL);
      id.traffic_class = small;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      if (!read_option(value, octets, number)) return fail(EINVAL);
      if (id.state != IdState::kIdle && number == 0) return fail(EINVAL);
      id.reuses_address = number != 0;
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      if (!read_option(value, octets, number)) return fail(EINVAL);
      if (id.state != IdState::kIdle) return fail(EINVAL);
      id.ipv6_only = number != 0;
      return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (!read_option(value, octets, small) || small > 31) return fail(EINVAL);
      id.ack_timeout = small;
      return 0;
    default:
      return fail(ENOSYS);
  }
}

}  // namespace

namespace cm_functions {

rdma_event_channel* create_event_channel() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) return nullptr;
  ibv_free_device_list(list);
  if (count == 0) return as_null<rdma_event_channel>(Errc::kNoDevice);
  auto channel = std::make_unique<CmChannel>();
  if (auto opened = channel->open(); !opened) return as_null<rdma_event_channel>(opened.error());
  return channel.release()->public_part();
}

void destroy_event_channel(rdma_event_channel* channel) {
  CmChannel::retire(reinterpret_cast<CmChannel*>(channel));
}

int create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space) {
  if (!is_port_space(space)) return fail(EPROTONOSUPPORT);
  auto handle = std::make_unique<IdHandle>();
  handle->id.context = context;
  handle->id.ps = space;
  const bool is_datagram = space == RDMA_PS_UDP || space == RDMA_PS_IPOIB;
  handle->id.qp_type = is_datagram ? IBV_QPT_UD : IBV_QPT_RC;
  if (auto given = give_channel(*handle, channel); !given) return as_minus_one(given);
  LiveHandles::instance().add(handle.get());
  *id = &handle.release()->id;
  return 0;
}

int destroy_id(rdma_cm_id* id) {
  if (!LiveHandles::instance().contains(id)) return fail(EINVAL);
  destroy(handle_of(id));
  return 0;
}

int migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  IdHandle& handle = handle_of(id);
  if (handle.is_synchronous() && id->event != nullptr) {
    (void)ack_cm_event(id->event);
    id->event = nullptr;
  }
  std::unique_ptr<CmChannel> old_own;
  {
    std::unique_lock lock(events_mutex());
    CmChannel* old = handle.channel;
    old_own = std::move(handle.own_channel);
    if (auto given = give_channel(handle, channel); !given) {
      handle.own_channel = std::move(old_own);
      return as_minus_one(given);
    }
    old->extract([&](const EventHandle& event) { return event.counted == &handle; },
                 [&](EventHandle* event) { handle.channel->push(event); });
  }
  await_acknowledgements(handle);
  return 0;
}

int set_option(rdma_cm_id* id, int level, int option, void* value, size_t octets) {
  IdHandle& handle = handle_of(id);
  if (level == RDMA_OPTION_ID) return set_id_option(handle, option, value, octets);
  return fail(ENOSYS);
}

ibv_context** get_devices(int* count) {
  const auto devices = cm_devices();
  if (count != nullptr) *count = 0;
  if (devices.empty()) return as_null<ibv_context*>(Errc::kNoDevice);
  auto* list = static_cast<ibv_context**>(std::calloc(devices.size() + 1, sizeof(ibv_context*)));
  if (list == nullptr) return as_null<ibv_context*>(Errc::kNoMemory);
  for (std::size_t i = 0; i < devices.size(); ++i) list[i] = devices[i]->verbs();
  if (count != nullptr) *count = static_cast<int>(devices.size());
  return list;
}

void free_devices(ibv_context** list) { std::free(list); }

__be16 get_src_port(rdma_cm_id* id) { return htons(handle_of(id).source.port); }
__be16 get_dst_port(rdma_cm_id* id) { return htons(handle_of(id).destination.port); }

}  // namespace cm_functions
}  // namespace verbatim::abi
