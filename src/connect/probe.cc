// SPDX-License-Identifier: Apache-2.0
#include "connect/probe.h"

#include <sys/socket.h>

#include <cerrno>

#include "connect/error.h"

namespace verbatim::connect {

Probe::Probe(bool is_ipv4) noexcept
    : descriptor_(device::OwnDescriptor::in_place(
          ::socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0))),
      failure_(descriptor_.is_open() ? 0 : errno) {}

template <typename Call>
Outcome Probe::apply(Call call, const IpEndpoint& to) noexcept {
  if (!descriptor_.is_open()) return error_of_system(failure_);
  sockaddr_storage storage{};
  store(to, storage);
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (call(descriptor_.number(), address, octets_of(address)) != 0) return error_of_system(errno);
  return Ok{};
}

Outcome Probe::bind(IpEndpoint to) noexcept {
  to.port = 0;
  return apply(::bind, to);
}

Outcome Probe::connect(IpEndpoint to) noexcept {
  if (to.port == 0) to.port = 1;  // some systems refuse port 0
  return apply(::connect, to);
}

void Probe::knock() noexcept {
  if (!descriptor_.is_still_own()) return;
  (void)!::send(descriptor_.number(), "", 0, MSG_DONTWAIT | MSG_NOSIGNAL);
}

Expected<IpEndpoint, Error> Probe::name() noexcept {
  sockaddr_storage storage{};
  socklen_t octets = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (::getsockname(descriptor_.number(), address, &octets) != 0) return error_of_system(errno);
  const auto endpoint = endpoint_of(address);
  if (!endpoint) return Error::kAddressFamily;
  return *endpoint;
}

Expected<IpEndpoint, Error> route_source(const IpEndpoint& destination, const IpEndpoint& source) {
  // The sender chooses the source address of packets to a group, not the route.
  if (destination.address.is_multicast() && !source.is_any()) return source;
  Probe probe(destination.is_ipv4);
  if (!source.is_any()) {
    if (auto bound = probe.bind(source); !bound) return bound.error();
  }
  if (auto connected = probe.connect(destination); !connected) return connected.error();
  return probe.name();
}

bool is_local(const IpEndpoint& endpoint) noexcept {
  Probe probe(endpoint.is_ipv4);
  return probe.bind(endpoint).ok();
}

}  // namespace verbatim::connect
