// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>

#include "wire/headers/ids.h"

/// Socket addresses of programs, converted to addresses of an adapter.
namespace verbatim::connect {

/// What an address of the family AF_IB (sockaddr_ib) has beside its GID.
struct IbPart {
  wire::PKey pkey = wire::PKey::kDefault;
  std::uint64_t service = 0;       // the service ID: a port space, and a port in the last 16 bits
  std::uint64_t service_mask = 0;  // the bits of it that count
  friend bool operator==(const IbPart&, const IbPart&) noexcept = default;
};

/// An IP address and a port: IPv4 addresses are kept as IPv4-mapped ones. Or a GID and a service.
struct IpEndpoint {
  wire::Gid address{};
  std::uint16_t port = 0;
  std::uint32_t scope = 0;     // interface of a link-local IPv6 address
  bool is_ipv4 = true;         // an IPv4-mapped address in an IPv6 sockaddr counts as IPv4
  std::optional<IbPart> ib{};  // of a GID

  friend bool operator==(const IpEndpoint&, const IpEndpoint&) noexcept = default;

  /// The wildcard address of a family.
  [[nodiscard]] static IpEndpoint any(bool is_ipv4) noexcept;
  /// The wildcard address of the family of `other`.
  [[nodiscard]] static IpEndpoint any_like(const IpEndpoint& other) noexcept;
  [[nodiscard]] bool is_of_family(const IpEndpoint& other) const noexcept {
    return is_ipv4 == other.is_ipv4 && ib.has_value() == other.ib.has_value();
  }

  [[nodiscard]] bool is_any() const noexcept;
  [[nodiscard]] bool is_loopback() const noexcept;
  /// Whether it is in 127.64.0.0/10, where the addresses of nodes of fabrics are.
  [[nodiscard]] bool is_of_fabrics() const noexcept;
  /// As a number in host byte order.
  [[nodiscard]] std::uint32_t ipv4() const noexcept;
  void set_ipv4(std::uint32_t number) noexcept;
  [[nodiscard]] bool is_link_local() const noexcept {
    return address.octets[0] == 0xfe && (address.octets[1] & 0xc0) == 0x80;
  }
};

/// The family of sockaddr_ib, which Linux defines.
inline constexpr sa_family_t kFamilyIb = 27;

/// Nothing for a family other than IPv4, IPv6 and kFamilyIb.
[[nodiscard]] std::optional<IpEndpoint> endpoint_of(const sockaddr* address) noexcept;
[[nodiscard]] socklen_t octets_of(const sockaddr* address) noexcept;
void store(const IpEndpoint& endpoint, sockaddr_storage& to) noexcept;

}  // namespace verbatim::connect
