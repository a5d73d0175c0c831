// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "base/byte_order.h"
#include "wire/headers/ids.h"

namespace verbatim::link {

/// The address argument of socket calls, for either family, which take it as `base`.
union SocketAddress {
  sockaddr base;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

/// Whether an address has a meaning on one link only, so that the interface must be named as well.
[[nodiscard]] inline bool needs_scope(const wire::Gid& gid) noexcept {
  const bool unicast = gid.octets[0] == 0xfe && (gid.octets[1] & 0xc0) == 0x80;
  const bool group = gid.octets[0] == 0xff && (gid.octets[1] & 0x0f) <= 2;
  return unicast || group;
}

/// An IPv4-mapped GID is an IPv4 address, every other an IPv6 address.
inline socklen_t store_address(SocketAddress& to, const wire::Gid& gid, std::uint16_t port,
                               std::uint32_t scope) noexcept {
  if (gid.is_ipv4_mapped()) {
    to.v4 = {};
    to.v4.sin_family = AF_INET;
    to.v4.sin_port = big_endian(port);
    std::memcpy(&to.v4.sin_addr, gid.octets.data() + 12, 4);
    return sizeof to.v4;
  }
  to.v6 = {};
  to.v6.sin6_family = AF_INET6;
  to.v6.sin6_port = big_endian(port);
  std::memcpy(&to.v6.sin6_addr, gid.octets.data(), 16);
  if (needs_scope(gid)) to.v6.sin6_scope_id = scope;
  return sizeof to.v6;
}

[[nodiscard]] inline wire::Gid gid_of(const SocketAddress& from) noexcept {
  wire::Gid gid;
  if (from.base.sa_family == AF_INET) {
    gid.octets[10] = gid.octets[11] = 0xff;
    std::memcpy(gid.octets.data() + 12, &from.v4.sin_addr, 4);
  } else {
    std::memcpy(gid.octets.data(), &from.v6.sin6_addr, 16);
  }
  return gid;
}

[[nodiscard]] inline std::uint16_t port_of(const SocketAddress& from) noexcept {
  return big_endian(from.base.sa_family == AF_INET ? from.v4.sin_port : from.v6.sin6_port);
}

}  // namespace verbatim::link
