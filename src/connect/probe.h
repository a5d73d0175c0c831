// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "connect/error.h"
#include "connect/ip_endpoint.h"
#include "device/own_descriptor.h"

namespace verbatim::connect {

/// A UDP socket that the system is asked for routes with. It sends nothing but what knock() says.
/// A search for a neighbour keeps one for seconds. The program may close it meanwhile.
class Probe {
 public:
  explicit Probe(bool is_ipv4) noexcept;
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  [[nodiscard]] Outcome bind(IpEndpoint to) noexcept;
  [[nodiscard]] Outcome connect(IpEndpoint to) noexcept;
  /// Makes the system look for the neighbour: an empty datagram, which says nothing.
  void knock() noexcept;
  /// The address that the socket has: after connect(), the one that packets leave from.
  [[nodiscard]] Expected<IpEndpoint, Error> name() noexcept;

 private:
  template <typename Call>
  [[nodiscard]] Outcome apply(Call call, const IpEndpoint& to) noexcept;

  device::OwnDescriptor descriptor_;
  int failure_ = 0;  // why there is no descriptor, as the system numbers it
};

/// The local address that packets to `destination` leave from, as the system routes them; of those
/// of `source`, if that names one.
[[nodiscard]] Expected<IpEndpoint, Error> route_source(const IpEndpoint& destination,
                                                       const IpEndpoint& source);
/// Whether some interface of this host has the address.
[[nodiscard]] bool is_local(const IpEndpoint& endpoint) noexcept;

}  // namespace verbatim::connect
