// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>

#include "wire/headers/ids.h"

/// Socket addresses of programs, converted to addresses of an adapter.
namespace verbatim::connect {

/// An IP address and a port: IPv4 addresses are kept as IPv4-mapped ones.
struct IpEndpoint {
  wire::Gid address{};
  std::uint16_t port = 0;
  std::uint32_t scope = 0;  // interface of a link-local IPv6 address
  bool is_ipv4 = true;      // an IPv4-mapped address in an IPv6 sockaddr counts as IPv4

  friend bool operator==(const IpEndpoint&, const IpEndpoint&) noexcept = default;

  /// The wildcard address of a family.
  [[nodiscard]] static IpEndpoint any(bool is_ipv4) noexcept;

  [[nodiscard]] bool is_any() const noexcept;
  [[nodiscard]] bool is_loopback() const noexcept;
  [[nodiscard]] bool is_link_local() const noexcept {
    return address.octets[0] == 0xfe && (address.octets[1] & 0xc0) == 0x80;
  }
};

/// Nothing for a family other than IPv4 and IPv6.
[[nodiscard]] std::optional<IpEndpoint> endpoint_of(const sockaddr* address) noexcept;
[[nodiscard]] socklen_t octets_of(const sockaddr* address) noexcept;
void store(const IpEndpoint& endpoint, sockaddr_storage& to) noexcept;

}  // namespace verbatim::connect
