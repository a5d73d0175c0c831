// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "connect/error.h"
#include "connect/ip_endpoint.h"
#include "connect/route.h"
#include "wire/service_id.h"

namespace verbatim::connect {

class Device;
class Id;

/// What ids need of the host beside devices: routes, neighbours, and ports that no other process
/// has. Tests have one of their own.
class System {
 public:
  System() noexcept = default;
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  /// Not with connections_mutex() held: devices may be opened.
  [[nodiscard]] virtual std::vector<Device*> devices() = 0;
  /// The local address that packets to `destination` leave from; of those of `source`, if that
  /// names one.
  [[nodiscard]] virtual Expected<IpEndpoint, Error> route_source(const IpEndpoint& destination,
                                                                 const IpEndpoint& source) = 0;
  /// Whether some interface of this host has the address.
  [[nodiscard]] virtual bool is_local(const IpEndpoint& endpoint) = 0;

  /// A port for an id that does not care which.
  [[nodiscard]] virtual Expected<std::uint16_t, Error> take_port(wire::PortSpace space) = 0;
  virtual void give_port_back(wire::PortSpace space, std::uint16_t port) noexcept = 0;

  /// Has the system find the neighbour that `route` leads to, if it leads to one: hosts behind a
  /// router are taken to be there. Calls Id::finish_resolving(), now or from another thread; with
  /// kTimedOut when no neighbour has answered after `patience`.
  virtual void seek_neighbour(Id& id, const Route& route, Duration patience) = 0;
  /// The id ends: it is not finished any more when this returns.
  virtual void stop_seeking(Id& id) noexcept = 0;

  /// The device that has this address; null when none does.
  [[nodiscard]] Device* device_with(const wire::Gid& address);
  /// The device that has this address, or that stands in for the loopback address; null when none
  /// does.
  [[nodiscard]] Device* device_of(const IpEndpoint& endpoint);
  /// How an id at `from` reaches `to`. kNoDevice when no device of ours is on the way.
  [[nodiscard]] Expected<Route, Error> find_route(const IpEndpoint& from, const IpEndpoint& to);

 protected:
  ~System() = default;
};

}  // namespace verbatim::connect
