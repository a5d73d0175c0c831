// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace verbatim::wire {

/// Identifies the service that a connection request asks for (IBA Vol 1, 12.6.5.2).
enum class ServiceId : std::uint64_t {};

/// The ranges of service IDs that rdma_cm maps port numbers into (annex A11.2): bits 63..16 of the
/// service ID. The low octet of the IP ones is the protocol number.
enum class PortSpace : std::uint16_t {
  kIpoib = 0x0002,
  kTcp = 0x0106,
  kUdp = 0x0111,
  kIb = 0x013f,
};

[[nodiscard]] constexpr const char* name_of(PortSpace space) noexcept {
  switch (space) {
    case PortSpace::kIpoib:
      return "IPOIB";
    case PortSpace::kTcp:
      return "TCP";
    case PortSpace::kUdp:
      return "UDP";
    case PortSpace::kIb:
      return "IB";
  }
  return "?";
}

/// A port number, and the port space it belongs to.
struct ServicePort {
  PortSpace space{};
  std::uint16_t port = 0;
  friend constexpr bool operator==(ServicePort, ServicePort) noexcept = default;
};

[[nodiscard]] constexpr ServiceId service_id_of(ServicePort service) noexcept {
  return ServiceId{(static_cast<std::uint64_t>(service.space) << 16) | service.port};
}

/// Nothing when the service ID is not of a port space.
[[nodiscard]] constexpr std::optional<ServicePort> service_port_of(ServiceId id) noexcept {
  const auto value = static_cast<std::uint64_t>(id);
  const auto port = static_cast<std::uint16_t>(value & 0xffff);
  for (const PortSpace space :
       {PortSpace::kIpoib, PortSpace::kTcp, PortSpace::kUdp, PortSpace::kIb}) {
    if (value >> 16 == static_cast<std::uint64_t>(space)) return ServicePort{space, port};
  }
  return std::nullopt;
}

}  // namespace verbatim::wire
