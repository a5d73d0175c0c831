// SPDX-License-Identifier: Apache-2.0
// rdma_bind_addr(3), rdma_resolve_addr(3), rdma_resolve_route(3), and the ports they take.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "abi/border.h"
#include "abi/rdmacm/functions.h"
#include "abi/rdmacm/id.h"
#include "abi/rdmacm/neighbours.h"
#include "abi/rdmacm/ports.h"

namespace verbatim::abi {
namespace {

/// Gives the id an address of this host. An address of all means no device yet; so does, as in
/// Linux, a loopback address that no device has.
int bind_to(IdHandle& id, const IpEndpoint& source) {
  id.source = source;
  CmDevice* const device = source.is_any() ? nullptr : cm_device_with(source.address);
  if (device != nullptr) {
    id.local_gid = source.address;
    id.device = device;
  } else if (!source.is_any() && !source.is_loopback()) {
    return fail(is_local(source) ? ENODEV : EADDRNOTAVAIL);
  } else if (cm_devices().empty()) {
    return fail(ENODEV);
  }
  if (auto taken = take_port(id); !taken) {
    id.device = nullptr;
    return as_minus_one(taken);
  }
  if (device != nullptr) attach(id, *device);
  publish_addresses(id);
  id.state = IdState::kBound;
  return 0;
}

/// An errno value where there is no way.
Expected<Route, int> find_route(const IpEndpoint& from, const IpEndpoint& to) {
  const bool is_loopback = to.is_loopback();
  Route route{.destination = to};
  if (is_loopback && from.is_any()) {
    route.source = to;
  } else if (is_loopback) {
    route.source = from;
  } else {
    const auto found = route_source(to, from);
    if (!found) return errno;
    route.source = *found;
  }
  route.source.port = from.port;
  route.device = cm_device_of(route.source);
  if (route.device == nullptr) return ENODEV;
  const auto stand_in = route.device->loopback_gid(to.is_ipv4);
  const auto gid_on_device = [&](const IpEndpoint& end) -> std::optional<wire::Gid> {
    if (!end.is_loopback() || route.device->index_of(end.address)) return end.address;
    return stand_in;
  };
  const auto local = gid_on_device(route.source);
  const auto remote = gid_on_device(to);
  if (!local || !remote) return ENODEV;
  route.local = *local;
  route.remote = *remote;
  return route;
}

/// The address of all of a family.
IpEndpoint any_of_family(bool is_ipv4) noexcept {
  IpEndpoint any;
  any.is_ipv4 = is_ipv4;
  if (is_ipv4) any.address.octets[10] = any.address.octets[11] = 0xff;
  return any;
}

/// The address of this host, where the one of all was asked for.
IpEndpoint loopback_if_any(const IpEndpoint& endpoint) noexcept {
  if (!endpoint.is_any()) return endpoint;
  IpEndpoint here = endpoint;
  if (here.is_ipv4) here.address.octets[12] = 127;
  here.address.octets[15] = 1;
  return here;
}

ibv_sa_path_rec path_of(const IdHandle& id) noexcept {
  ibv_sa_path_rec path{};
  std::memcpy(path.sgid.raw, id.local_gid.octets.data(), sizeof path.sgid.raw);
  std::memcpy(path.dgid.raw, id.remote_gid.octets.data(), sizeof path.dgid.raw);
  path.hop_limit = 64;
  path.traffic_class = id.traffic_class;
  path.reversible = 1;
  path.numb_path = 1;
  path.pkey = 0xffff;
  path.mtu_selector = path.rate_selector = path.packet_life_time_selector = 2;  // exactly
  path.mtu = static_cast<std::uint8_t>(id.device->port().active_mtu);
  path.packet_life_time = static_cast<std::uint8_t>(cm::kPacketLifeTime);
  return path;
}

}  // namespace

void finish_resolving(IdHandle& id, const Route& route, int error) {
  if (error != 0) {
    id.state = IdState::kBound;
    return notify(id, make_event(id, RDMA_CM_EVENT_ADDR_ERROR, -error));
  }
  id.source = route.source;
  id.destination = route.destination;
  id.local_gid = route.local;
  id.remote_gid = route.remote;
  attach(id, *route.device);
  id.state = IdState::kAddressResolved;
  notify(id, make_event(id, RDMA_CM_EVENT_ADDR_RESOLVED));
}

namespace cm_functions {

int bind_addr(rdma_cm_id* id, sockaddr* address) {
  IdHandle& handle = handle_of(id);
  const auto source = endpoint_of(address);
  if (!source) return fail(EAFNOSUPPORT);
  if (handle.state != IdState::kIdle) return fail(EINVAL);
  return bind_to(handle, *source);
}

int resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int timeout_ms) {
  IdHandle& handle = handle_of(id);
  const auto named = endpoint_of(destination);
  if (!named) return fail(EAFNOSUPPORT);
  if (handle.state == IdState::kIdle) {
    const auto from = endpoint_of(source).value_or(any_of_family(named->is_ipv4));
    if (bind_to(handle, from) != 0) return -1;
  }
  if (handle.state != IdState::kBound) return fail(EINVAL);
  if (handle.source.is_ipv4 != named->is_ipv4 && !handle.source.is_any()) return fail(EINVAL);
  const IpEndpoint to = loopback_if_any(*named);
  const auto route = find_route(handle.source, to);
  if (!route) {
    if (route.error() != ENODEV) return fail(route.error());
    notify(handle, make_event(handle, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV));
    return complete(handle);
  }
  handle.state = IdState::kResolving;
  if (cm_device_of(to) != nullptr) {
    finish_resolving(handle, *route, 0);
  } else {
    seek_neighbour(handle, *route, std::chrono::milliseconds(std::max(timeout_ms, 0)));
  }
  return complete(handle);
}

int resolve_route(rdma_cm_id* id, int) {
  IdHandle& handle = handle_of(id);
  if (handle.state != IdState::kAddressResolved) return fail(EINVAL);
  handle.path = path_of(handle);
  id->route.path_rec = &handle.path;
  id->route.num_paths = 1;
  handle.state = IdState::kRouteResolved;
  notify(handle, make_event(handle, RDMA_CM_EVENT_ROUTE_RESOLVED));
  return complete(handle);
}

}  // namespace cm_functions
}  // namespace verbatim::abi
