// SPDX-License-Identifier: Apache-2.0
#include "connect/ip_endpoint.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

namespace verbatim::connect {
namespace {

constexpr std::size_t kIpv4At = 12;  // in an IPv4-mapped address

/// struct sockaddr_ib of rdma/ib.h. Members that end in `_be` are in network byte order.
struct SocketAddressIb {
  std::uint16_t family = kFamilyIb;
  std::uint16_t pkey_be = 0;
  std::uint32_t flow_info_be = 0;
  wire::Gid address{};
  std::uint64_t service_be = 0;
  std::uint64_t service_mask_be = 0;
  std::uint64_t scope = 0;
};
static_assert(sizeof(SocketAddressIb) == 48);

constexpr std::uint64_t kPortBits = 0xffff;

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

IpEndpoint IpEndpoint::any_like(const IpEndpoint& other) noexcept {
  IpEndpoint made = any(other.is_ipv4);
  if (other.ib) made.ib = IbPart{.pkey = other.ib->pkey};
  return made;
}

bool IpEndpoint::is_of_fabrics() const noexcept {
  return is_ipv4 && address.octets[kIpv4At] == 127 && (address.octets[kIpv4At + 1] & 0xc0) == 0x40;
}

std::uint32_t IpEndpoint::ipv4() const noexcept {
  std::uint32_t number = 0;
  std::memcpy(&number, address.octets.data() + kIpv4At, sizeof number);
  return ntohl(number);
}

void IpEndpoint::set_ipv4(std::uint32_t number) noexcept {
  const std::uint32_t network_order = htonl(number);
  std::memcpy(address.octets.data() + kIpv4At, &network_order, sizeof network_order);
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

namespace {

IpEndpoint endpoint_of_ib(const sockaddr* address) noexcept {
  SocketAddressIb ib;
  std::memcpy(static_cast<void*>(&ib), address, sizeof ib);
  IpEndpoint endpoint;
  endpoint.is_ipv4 = false;
  endpoint.address = ib.address;
  endpoint.ib = IbPart{.pkey = wire::PKey{ntohs(ib.pkey_be)},
                       .service = be64toh(ib.service_be),
                       .service_mask = be64toh(ib.service_mask_be)};
  endpoint.port =
      static_cast<std::uint16_t>(endpoint.ib->service & endpoint.ib->service_mask & kPortBits);
  return endpoint;
}

}  // namespace

std::optional<IpEndpoint> endpoint_of(const sockaddr* address) noexcept {
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == kFamilyIb) return endpoint_of_ib(address);
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
  if (address->sa_family == kFamilyIb) return sizeof(SocketAddressIb);
  return address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

void store(const IpEndpoint& endpoint, sockaddr_storage& to) noexcept {
  to = {};
  if (endpoint.ib) {
    const SocketAddressIb ib{
        .pkey_be = htons(static_cast<std::uint16_t>(endpoint.ib->pkey)),
        .address = endpoint.address,
        .service_be = htobe64((endpoint.ib->service & ~kPortBits) | endpoint.port),
        .service_mask_be = htobe64(endpoint.ib->service_mask)};
    std::memcpy(&to, &ib, sizeof ib);
    return;
  }
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
