// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "connect/error.h"
#include "connect/ip_endpoint.h"
#include "device/own_descriptor.h"

namespace verbatim::connect {

/// A UDP socket for finding routes and resolving neighbours. Only knock() sends. A NeighbourSearch
/// keeps one for seconds; the program may close its descriptor meanwhile.
class Probe {
 public:
  explicit Probe(bool is_ipv4) noexcept;
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  [[nodiscard]] Outcome bind(IpEndpoint to) noexcept;
  [[nodiscard]] Outcome connect(IpEndpoint to) noexcept;
  /// Sends an empty datagram, which makes the system resolve the neighbour.
  void knock() noexcept;
  /// The address of the socket. After connect(): the source address of packets.
  [[nodiscard]] Expected<IpEndpoint, Error> name() noexcept;

 private:
  template <typename Call>
  [[nodiscard]] Outcome apply(Call call, const IpEndpoint& to) noexcept;

  device::OwnDescriptor descriptor_;
  int failure_ = 0;  // the errno of socket(2)
};

/// The source address of packets to `destination`, as the system routes them. If `source` names an
/// address, the route is one from there.
[[nodiscard]] Expected<IpEndpoint, Error> route_source(const IpEndpoint& destination,
                                                       const IpEndpoint& source);
/// Whether some interface of this host has the address.
[[nodiscard]] bool is_local(const IpEndpoint& endpoint) noexcept;

}  // namespace verbatim::connect
