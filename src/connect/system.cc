// SPDX-License-Identifier: Apache-2.0
#include "connect/system.h"

#include <optional>

#include "connect/device.h"

namespace verbatim::connect {

Device* System::device_with(const wire::Gid& address) {
  for (Device* device : devices()) {
    if (device->index_of(address)) return device;
  }
  return nullptr;
}

Device* System::device_of(const IpEndpoint& endpoint) {
  Device* const device = device_with(endpoint.address);
  if (device != nullptr || !endpoint.is_loopback()) return device;
  for (Device* stand_in : devices()) {
    if (stand_in->loopback_gid(endpoint.is_ipv4)) return stand_in;
  }
  return nullptr;
}

Expected<Route, Error> System::find_route(const IpEndpoint& from, const IpEndpoint& to) {
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
