// SPDX-License-Identifier: Apache-2.0
#include "connect/system.h"

#include <optional>

#include "connect/device.h"

namespace verbatim::connect {

Device* System::native_device() {
  for (Device* device : devices()) {
    if (device->is_native()) return device;
  }
  return nullptr;
}

/// On a fabric an address of an interface of this machine is one of the node: all nodes have it.
Device* System::device_at(const IpEndpoint& endpoint) {
  Device* const native = native_device();
  if (native == nullptr) return endpoint.ib ? nullptr : device_with(endpoint.address);
  if (endpoint.is_loopback() && !endpoint.is_of_fabrics()) return nullptr;
  const bool is_own =
      native->is_own(endpoint) || (!endpoint.ib && !endpoint.is_of_fabrics() && is_local(endpoint));
  return is_own ? native : nullptr;
}

Device* System::device_with(const wire::Gid& address) {
  for (Device* device : devices()) {
    if (device->index_of(address)) return device;
  }
  return nullptr;
}

Device* System::device_of(const IpEndpoint& endpoint) {
  if (Device* const native = native_device()) {
    return device_at(endpoint) != nullptr || native->is_own(endpoint) ? native : nullptr;
  }
  Device* const device = device_with(endpoint.address);
  if (device != nullptr || !endpoint.is_loopback()) return device;
  for (Device* stand_in : devices()) {
    if (stand_in->loopback_gid(endpoint.is_ipv4)) return stand_in;
  }
  return nullptr;
}

Expected<wire::Gid, Error> System::find_native_gid(Device& device, const IpEndpoint& at) {
  const bool is_here = at.is_any() || device_of(at) != nullptr;
  if (is_here) return device.own_gid();
  if (at.ib || at.address.is_multicast()) return at.address;
  if (!at.is_of_fabrics()) return Error::kHostUnreachable;
  return device.services().find_node(at.ipv4());
}

/// An id that is bound to no address leaves from that of the node.
Expected<Route, Error> System::find_native_route(Device& device, const IpEndpoint& from,
                                                 const IpEndpoint& to) {
  if (!device.port().fabric) return Error::kNoDevice;  // the fabric has ended
  const auto remote = find_native_gid(device, to);
  if (!remote) return remote.error();
  Route route{.device = &device, .source = from, .destination = to};
  route.local = device.own_gid();
  route.remote = *remote;
  if (from.is_any()) {
    route.source = IpEndpoint::any_like(to);
    route.source.ib = from.ib ? from.ib : to.ib;
    if (to.ib) route.source.address = route.local;
    if (to.is_ipv4) route.source.set_ipv4(device.own_ipv4());
    if (!to.is_ipv4 && !to.ib) route.source.address.octets[15] = 1;  // ::1, as the destination is
    route.source.port = from.port;
  }
  return route;
}

Expected<Route, Error> System::find_route(const IpEndpoint& from, const IpEndpoint& to) {
  if (Device* const native = native_device()) return find_native_route(*native, from, to);
  if (to.ib) return Error::kAddressFamily;
  Route route{.destination = to};
  if (to.is_loopback()) {
    route.source = from.is_any() ? to : from;
  } else {
    const auto found = route_source(to, from);
    if (!found) return found.error();
    route.source = *found;
  }
  route.source.port = from.port;
  route.device = device_of(route.source);
  if (route.device == nullptr) return Error::kNoDevice;
  const auto gid_on_device = [&](const IpEndpoint& end) -> std::optional<wire::Gid> {
    if (!end.is_loopback() || route.device->index_of(end.address)) return end.address;
    return route.device->loopback_gid(to.is_ipv4);
  };
  const auto local = gid_on_device(route.source);
  const auto remote = gid_on_device(to);
  if (!local || !remote) return Error::kNoDevice;
  route.local = *local;
  route.remote = *remote;
  return route;
}

}  // namespace verbatim::connect
