// SPDX-License-Identifier: Apache-2.0
// rdma_create_id(3), rdma_destroy_id(3), rdma_migrate_id(3), rdma_set_option(3),
// rdma_get_src_port(3).
#include "abi/rdmacm/id.h"

#include <arpa/inet.h>
#include <infiniband/sa.h>

#include <cstring>
#include <span>
#include <utility>

#include "abi/rdmacm/functions.h"
#include "cm/timing.h"
#include "connect/host_system.h"

namespace verbatim::abi {

namespace {

/// The part of an address vector that only a subnet of InfiniBand has.
void set_local_route(ibv_ah_attr& attr, const connect::Device& device,
                     const wire::LocalRoute& route) {
  const auto port = device.port().fabric;
  const unsigned path_bits = port ? (1U << port->lmc) - 1 : 0;
  attr.dlid = static_cast<std::uint16_t>(route.destination);
  attr.sl = static_cast<std::uint8_t>(route.level);
  attr.src_path_bits = static_cast<std::uint8_t>(static_cast<unsigned>(route.source) & path_bits);
}

}  // namespace

/// As in Linux packets within a subnet have no global header, and those to a router have one.
ibv_ah_attr address_vector(const IdHandle& id, const cm::Address& path, const cm::Travel& travel) {
  const connect::Device& device = *id.object->ends().device;
  ibv_ah_attr attr{};
  attr.is_global = path.route.exists() && travel.hop_limit <= 1 ? 0 : 1;
  attr.port_num = 1;
  if (path.route.exists()) set_local_route(attr, device, path.route);
  attr.static_rate = travel.packet_rate;
  std::memcpy(attr.grh.dgid.raw, path.remote.octets.data(), sizeof attr.grh.dgid.raw);
  attr.grh.sgid_index = static_cast<std::uint8_t>(device.index_of(path.local).value_or(0));
  attr.grh.hop_limit = travel.hop_limit;
  attr.grh.traffic_class = travel.traffic_class;
  attr.grh.flow_label = travel.flow_label;
  return attr;
}

ibv_ah_attr address_vector(const IdHandle& id, const cm::Address& path) {
  cm::Travel travel{.traffic_class = id.object->options().traffic_class};
  if (path.route.exists()) {
    const auto& record = id.object->ends().path;
    travel = {.hop_limit = record ? record->hop_limit : std::uint8_t{0},
              .packet_rate = record ? record->rate : std::uint8_t{0}};
  }
  return address_vector(id, path, travel);
}

ibv_ah_attr address_vector(const IdHandle& id, const connect::Event& joined) {
  const wire::Gid local = id.object->ends().local;
  if (!joined.record) return address_vector(id, {.local = local, .remote = joined.group});
  const wire::MulticastRecord& record = *joined.record;
  ibv_ah_attr attr = address_vector(id, {.local = local, .remote = record.group},
                                    {.flow_label = record.flow_label,
                                     .traffic_class = record.traffic_class,
                                     .hop_limit = record.hop_limit,
                                     .packet_rate = record.rate});
  set_local_route(attr, *id.object->ends().device,
                  {.destination = record.lid, .level = record.level});
  return attr;
}

namespace {

wire::PathRecord record_of(const IdHandle& id, const connect::Route& ends) {
  if (ends.path) return *ends.path;
  using wire::RecordSelector;
  return {.destination_gid = ends.remote,
          .source_gid = ends.local,
          .hop_limit = 64,
          .traffic_class = id.object->options().traffic_class,
          .is_reversible = true,
          .path_count = 1,
          .pkey = wire::PKey::kDefault,
          .mtu_selector = RecordSelector::kExactly,
          .mtu = ends.device->port().active_mtu,
          .rate_selector = RecordSelector::kExactly,
          .life_time_selector = RecordSelector::kExactly,
          .life_time = static_cast<std::uint8_t>(cm::kPacketLifeTime)};
}

}  // namespace

void publish_path(IdHandle& id) {
  const connect::Route ends = id.object->ends();
  if (ends.device == nullptr) return;
  const wire::PathRecord record = record_of(id, ends);
  ibv_sa_path_rec path{};
  std::memcpy(path.dgid.raw, record.destination_gid.octets.data(), sizeof path.dgid.raw);
  std::memcpy(path.sgid.raw, record.source_gid.octets.data(), sizeof path.sgid.raw);
  path.dlid = htons(static_cast<std::uint16_t>(record.destination));
  path.slid = htons(static_cast<std::uint16_t>(record.source));
  path.raw_traffic = record.is_raw ? 1 : 0;
  path.flow_label = htonl(record.flow_label);
  path.hop_limit = record.hop_limit;
  path.traffic_class = record.traffic_class;
  path.reversible = record.is_reversible ? 1 : 0;
  path.numb_path = record.path_count;
  path.pkey = htons(static_cast<std::uint16_t>(record.pkey));
  path.sl = static_cast<std::uint8_t>(record.level);
  path.mtu_selector = static_cast<std::uint8_t>(record.mtu_selector);
  path.mtu = static_cast<std::uint8_t>(record.mtu);
  path.rate_selector = static_cast<std::uint8_t>(record.rate_selector);
  path.rate = record.rate;
  path.packet_life_time_selector = static_cast<std::uint8_t>(record.life_time_selector);
  path.packet_life_time = record.life_time;
  path.preference = record.preference;
  id.path = path;
  id.id.route.path_rec = &id.path;
  id.id.route.num_paths = 1;
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
  if (ends.device != nullptr && ends.device->is_native()) {
    const wire::PKey key =
        ends.source.ib ? ends.source.ib->pkey : ends.device->port().default_pkey();
    ib.pkey = htons(static_cast<std::uint16_t>(key));
  }
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

/// One path for messages and packets, in both directions, must be among those of the program.
connect::Outcome set_paths(connect::Id& id, const void* value, std::size_t octets) {
  constexpr std::uint32_t kWanted =
      IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
  static_assert(sizeof(ibv_path_record) == wire::PathRecord::kSize);
  for (std::size_t at = 0; value != nullptr && at + sizeof(ibv_path_data) <= octets;
       at += sizeof(ibv_path_data)) {
    ibv_path_data data;
    std::memcpy(&data, static_cast<const std::byte*>(value) + at, sizeof data);
    if (data.flags != kWanted) continue;
    const auto record = std::as_bytes(std::span(&data.path, 1)).first<wire::PathRecord::kSize>();
    return id.set_path(wire::PathRecord::from(record));
  }
  return connect::Error::kInvalidArgument;
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
  if (level == RDMA_OPTION_IB && option == RDMA_OPTION_IB_PATH) {
    return complete(handle_of(id), set_paths(object_of(id), value, octets));
  }
  return fail(ENOSYS);
}

__be16 get_src_port(rdma_cm_id* id) { return htons(object_of(id).ends().source.port); }
__be16 get_dst_port(rdma_cm_id* id) { return htons(object_of(id).ends().destination.port); }

}  // namespace cm_functions
}  // namespace verbatim::abi
