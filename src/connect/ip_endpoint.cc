// SPDX-License-Identifier: Apache-2.0
#include "connect/ip_endpoint.h"

#include <algorithm>
#include <cstring>

namespace verbatim::connect {
namespace {

constexpr std::size_t kIpv4At = 12;  // in an IPv4-mapped address

wire::Gid mapped(const in_addr& address) noexcept {
  wire::Gid gid;
  gid.octets[10] = gid.octets[11] = 0xff;
  std::memcpy(gid.octets.data() + kIpv4At, &address, sizeof address);
  return gid;
}

}  // namespace

IpEndpoint IpEndpoint::any(bool is_ipv4) noexcept {
  IpEndpoint any;
  any.is_ipv4 = is_ipv4;
  if (is_ipv4) any.address.octets[10] = any.address.octets[11] = 0xff;
  return any;
}

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

}  // namespace verbatim::connect
