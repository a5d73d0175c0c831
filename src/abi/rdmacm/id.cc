// SPDX-License-Identifier: Apache-2.0
// rdma_create_id(3), rdma_destroy_id(3), rdma_migrate_id(3), rdma_set_option(3),
// rdma_get_src_port(3).
#include "abi/rdmacm/id.h"

#include <arpa/inet.h>

#include <cstring>
#include <utility>

#include "abi/rdmacm/functions.h"
#include "connect/host_system.h"

namespace verbatim::abi {

ibv_ah_attr address_vector(const IdHandle& id, const cm::Address& path) {
  const connect::Device& device = *id.object->ends().device;
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  std::memcpy(attr.grh.dgid.raw, path.remote.octets.data(), sizeof attr.grh.dgid.raw);
  attr.grh.sgid_index = static_cast<std::uint8_t>(device.index_of(path.local).value_or(0));
  attr.grh.hop_limit = 64;
  attr.grh.traffic_class = id.object->options().traffic_class;
  return attr;
}

void publish(IdHandle& id) {
  const connect::Route ends = id.object->ends();
  if (ends.device != nullptr) {
    const CmDevice& device = handle_of(*ends.device);
    id.id.verbs = device.verbs;
    id.id.port_num = 1;
    if (id.id.pd == nullptr) id.id.pd = device.pd;
  }
  rdma_addr& addr = id.id.route.addr;
  const connect::IpEndpoint& to = ends.destination;
  connect::store(ends.source, addr.src_storage);
  if (to.port != 0 || !to.is_any()) connect::store(to, addr.dst_storage);
  rdma_ib_addr& ib = addr.addr.ibaddr;
  std::memcpy(ib.sgid.raw, ends.local.octets.data(), sizeof ib.sgid.raw);
  std::memcpy(ib.dgid.raw, ends.remote.octets.data(), sizeof ib.dgid.raw);
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

int complete(IdHandle& id, const connect::Outcome& begun) {
  return begun ? complete(id) : as_minus_one(begun);
}

namespace {

void acknowledge_own_event(rdma_cm_id& id) {
  if (!handle_of(&id).is_synchronous() || id.event == nullptr) return;
  (void)cm_functions::ack_cm_event(id.event);
  id.event = nullptr;
}

void destroy(IdHandle& id) {
  acknowledge_own_event(id.id);
  id.object->end();  // until it returns, a thread that takes an event of the id may read the object
  if (id.resolved_info != nullptr) cm_functions::freeaddrinfo(id.resolved_info);
  discard(&id);
}

/// A channel for an id that the program gives none.
Expected<OwnedChannel, connect::Error> make_channel() {
  OwnedChannel own(new CmChannel);
  if (auto opened = own->open(); !opened) return opened.error();
  return own;
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

int set_id_option(connect::Id& id, int option, const void* value, std::size_t octets) noexcept {
  const bool is_idle = id.state() == connect::IdState::kIdle;
  std::uint8_t small = 0;
  int number = 0;
  switch (option) {
    case RDMA_OPTION_ID_TOS:
      if (!read_option(value, octets, small)) return fail(EINVAL);
      id.options().traffic_class = small;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      if (!read_option(value, octets, number)) return fail(EINVAL);
      if (!is_idle && number == 0) return fail(EINVAL);
      id.options().reuses_address = number != 0;
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      if (!read_option(value, octets, number)) return fail(EINVAL);
      if (!is_idle) return fail(EINVAL);
      id.options().ipv6_only = number != 0;
      return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (!read_option(value, octets, small) || small > 31) return fail(EINVAL);
      id.options().ack_timeout = small;
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
  auto channel = make_channel();
  if (!channel) {
    errno = to_errno(channel.error());
    return nullptr;
  }
  return &channel->release()->channel;
}

void destroy_event_channel(rdma_event_channel* channel) { CmChannel::retire(&handle_of(channel)); }

int create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space) {
  if (!is_port_space(space)) return fail(EPROTONOSUPPORT);
  auto handle = std::make_unique<IdHandle>();
  if (channel == nullptr) {
    auto own = make_channel();
    if (!own) return as_minus_one(own.error());
    handle->own_channel = std::move(*own);
    channel = &handle->own_channel->channel;
  }
  handle->object =
      std::make_unique<connect::Id>(connect::HostSystem::of_process(), handle_of(channel).queue,
                                    wire::PortSpace{static_cast<std::uint16_t>(space)});
  handle->object->adopt(handle.get(), handle->pair);
  handle->id.channel = channel;
  handle->id.context = context;
  handle->id.ps = space;
  handle->id.qp_type = handle->is_datagram() ? IBV_QPT_UD : IBV_QPT_RC;
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
  acknowledge_own_event(*id);
  OwnedChannel own;
  if (channel == nullptr) {
    auto made = make_channel();
    if (!made) return as_minus_one(made.error());
    own = std::move(*made);
    channel = &own->channel;
  }
  id->channel = channel;
  handle.object->move_to(handle_of(channel).queue);
  handle.own_channel = std::move(own);
  return 0;
}

int set_option(rdma_cm_id* id, int level, int option, void* value, size_t octets) {
  if (level == RDMA_OPTION_ID) return set_id_option(object_of(id), option, value, octets);
  return fail(ENOSYS);
}

__be16 get_src_port(rdma_cm_id* id) { return htons(object_of(id).ends().source.port); }
__be16 get_dst_port(rdma_cm_id* id) { return htons(object_of(id).ends().destination.port); }

}  // namespace cm_functions
}  // namespace verbatim::abi
