// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "connect/error.h"
#include "connect/ip_endpoint.h"
#include "connect/route.h"
#include "wire/cm/service_id.h"

namespace verbatim::connect {

class Device;
class Id;

/// The parts of the host that ids use: devices, routes, neighbours, and port numbers. Tests
/// implement it.
class System {
 public:
  System() noexcept = default;
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  /// Not with connections_mutex() held: devices may be opened.
  [[nodiscard]] virtual std::vector<Device*> devices() = 0;
  /// The source address of packets to `destination`. If `source` names an address, the route is one
  /// from there.
  [[nodiscard]] virtual Expected<IpEndpoint, Error> route_source(const IpEndpoint& destination,
                                                                 const IpEndpoint& source) = 0;
  /// Whether some interface of this host has the address.
  [[nodiscard]] virtual bool is_local(const IpEndpoint& endpoint) = 0;

  /// A free port for an id that names none.
  [[nodiscard]] virtual Expected<std::uint16_t, Error> take_port(wire::PortSpace space) = 0;
  virtual void give_port_back(wire::PortSpace space, std::uint16_t port) noexcept = 0;

  /// Resolves the neighbour at the end of `route`. Hosts behind a router count as resolved. Calls
  /// Id::finish_resolving(), now or from another thread; with kTimedOut when the neighbour has not
  /// answered after `patience`.
  virtual void seek_neighbour(Id& id, const Route& route, Duration patience) = 0;
  /// After this returns, Id::finish_resolving() is not called.
  virtual void stop_seeking(Id& id) noexcept = 0;

  /// The port of this program in a subnet of InfiniBand; null when it is on no fabric. A program on
  /// a fabric has no other device.
  [[nodiscard]] Device* native_device();
  /// The device that has this address; null when none does.
  [[nodiscard]] Device* device_with(const wire::Gid& address);
  /// The device to which an id binds that names this address; null when none has it.
  [[nodiscard]] Device* device_at(const IpEndpoint& endpoint);
  /// The device that has this address, or that is used for the loopback address; null when none is.
  [[nodiscard]] Device* device_of(const IpEndpoint& endpoint);
  /// The route from `from` to `to`. kNoDevice when it does not use a device of this process.
  [[nodiscard]] Expected<Route, Error> find_route(const IpEndpoint& from, const IpEndpoint& to);

 protected:
  ~System() = default;

 private:
  [[nodiscard]] Expected<Route, Error> find_native_route(Device& device, const IpEndpoint& from,
                                                         const IpEndpoint& to);
  /// The GID of the node with this address.
  [[nodiscard]] Expected<wire::Gid, Error> find_native_gid(Device& device, const IpEndpoint& at);
};

}  // namespace verbatim::connect
