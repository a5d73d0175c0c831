// SPDX-License-Identifier: Apache-2.0
#include "abi/rdmacm/address.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "abi/rdmacm/probe.h"

namespace verbatim::abi {
namespace {

constexpr std::size_t kIpv4At = 12;  // in an IPv4-mapped address

wire::Gid mapped(const in_addr& address) noexcept {
  wire::Gid gid;
  gid.octets[10] = gid.octets[11] = 0xff;
  std::memcpy(gid.octets.data() + kIpv4At, &address, sizeof address);
  return gid;
}

}  // namespace

bool IpEndpoint::is_any() const noexcept {
  const auto first = address.octets.begin() + (is_ipv4 ? kIpv4At : 0);
  return std::all_of(first, address.octets.end(), [](std::uint8_t octet) { return octet == 0; });
}

bool IpEndpoint::is_loopback() const noexcept {
  if (is_ipv4) return address.octets[kIpv4At] == 127;
  const auto last = address.octets.end() - 1;
  return *last == 1 &&
         std::all_of(address.octets.begin(), last, [](std::uint8_t octet) { return octet == 0; });
}

std::optional<IpEndpoint> endpoint_of(const sockaddr* address) noexcept {
  if (address == nullptr) return std::nullopt;
  IpEndpoint endpoint;
  if (address->sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, address, sizeof in);
    endpoint.address = mapped(in.sin_addr);
    endpoint.port = ntohs(in.sin_port);
    return endpoint;
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 in6;
  std::memcpy(&in6, address, sizeof in6);
  std::memcpy(endpoint.address.octets.data(), &in6.sin6_addr, sizeof in6.sin6_addr);
  endpoint.port = ntohs(in6.sin6_port);
  endpoint.scope = in6.sin6_scope_id;
  endpoint.is_ipv4 = endpoint.address.is_ipv4_mapped();
  return endpoint;
}

socklen_t octets_of(const sockaddr* address) noexcept {
  return address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

void store(const IpEndpoint& endpoint, sockaddr_storage& to) noexcept {
  to = {};
  if (endpoint.is_ipv4) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(endpoint.port);
    std::memcpy(&in.sin_addr, endpoint.address.octets.data() + kIpv4At, sizeof in.sin_addr);
    std::memcpy(&to, &in, sizeof in);
    return;
  }
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(endpoint.port);
  std::memcpy(&in6.sin6_addr, endpoint.address.octets.data(), sizeof in6.sin6_addr);
  in6.sin6_scope_id = endpoint.scope;
  std::memcpy(&to, &in6, sizeof in6);
}

Probe::Probe(bool is_ipv4) noexcept
    : descriptor_(::socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}

Probe::~Probe() {
  const int error = errno;
  if (descriptor_ >= 0) ::close(descriptor_);
  errno = error;
}

template <typename Call>
bool Probe::apply(Call call, const IpEndpoint& to) noexcept {
  sockaddr_storage storage{};
  store(to, storage);
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  return descriptor_ >= 0 && call(descriptor_, address, octets_of(address)) == 0;
}

bool Probe::bind(IpEndpoint to) noexcept {
  to.port = 0;
  return apply(::bind, to);
}

bool Probe::connect(IpEndpoint to) noexcept {
  if (to.port == 0) to.port = 1;  // some systems refuse none
  return apply(::connect, to);
}

void Probe::knock() noexcept { (void)!::send(descriptor_, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL); }

std::optional<IpEndpoint> Probe::name() noexcept {
  sockaddr_storage storage{};
  socklen_t octets = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (::getsockname(descriptor_, address, &octets) != 0) return std::nullopt;
  return endpoint_of(address);
}

std::optional<IpEndpoint> route_source(const IpEndpoint& destination,
                                       const std::optional<IpEndpoint>& source) {
  const bool has_source = source && !source->is_any();
  // Where a group is sent from is the sender's choice, not the route's.
  if (destination.address.is_multicast() && has_source) return source;
  Probe probe(destination.is_ipv4);
  if (has_source && !probe.bind(*source)) return std::nullopt;
  if (!probe.connect(destination)) return std::nullopt;
  return probe.name();
}

bool is_local(const IpEndpoint& endpoint) noexcept {
  Probe probe(endpoint.is_ipv4);
  return probe.bind(endpoint);
}

}  // namespace verbatim::abi
