// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "device/config.h"
#include "device/interface_list.h"
#include "wire/ids.h"

namespace verbatim::device {

/// One entry of a port's GID table.
struct GidEntry {
  wire::Gid gid{};
  std::uint32_t interface_index = 0;
};

/// A network interface as an adapter with one port: what the verbs say about it.
struct PortInfo {
  std::string name;       // vb0, vb1, ...
  std::string interface;  // eth0, ...
  std::uint32_t interface_index = 0;
  std::array<std::uint8_t, 8> guid{};  // from the MAC address (EUI-64), or made up for lo
  std::uint32_t interface_mtu = 1500;
  wire::PathMtu active_mtu = wire::PathMtu::k1024;  // the largest path MTU that fits the interface
  std::uint32_t speed_mbps = 0;                     // 0: unknown
  bool is_up = true;
  std::vector<GidEntry> gids;  // link-local first, then IPv4, then IPv6 addresses
};

/// Whether an interface can be a device at all: it has an address that packets can be sent from
/// beyond its link.
[[nodiscard]] bool has_usable_address(const Interface& interface) noexcept;

/// The largest path MTU whose packets fit: 80 octets are left for headers, as Linux does it.
[[nodiscard]] wire::PathMtu active_mtu_of(std::uint32_t interface_mtu) noexcept;

/// find_ports() over the interfaces given.
[[nodiscard]] std::vector<PortInfo> ports_of(const std::vector<Interface>& interfaces,
                                             const Config& config);

/// The adapters of this host: interfaces that are up, not loopback and not bridges, the default
/// route's first; lo only when there is nothing else, or when it is named.
[[nodiscard]] std::vector<PortInfo> find_ports(const Config& config);

}  // namespace verbatim::device
