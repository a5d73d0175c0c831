// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/config.h"
#include "device/interface_list.h"
#include "wire/headers/ids.h"

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
  std::optional<std::array<std::uint8_t, 6>> mac{};
  std::uint32_t interface_mtu = 1500;
  wire::PathMtu active_mtu = wire::PathMtu::k1024;  // the largest path MTU that fits the interface
  std::uint32_t speed_mbps = 0;                     // 0: unknown
  bool is_up = true;
  /// Link-local first, then IPv4, then IPv6 addresses. While a device is open, an entry that goes
  /// leaves a hole (the zero GID) for one that comes.
  std::vector<GidEntry> gids;

  [[nodiscard]] bool has(const wire::Gid& gid) const noexcept;
};

/// What every port can, as the verbs count it: it is managed by connection managers, and its GIDs
/// are IP addresses.
inline constexpr std::uint32_t kPortCapabilities = 0x0401'0000;
/// What devices say that they run.
inline constexpr const char* kFirmwareVersion = "0.1.0";

/// Width and speed as the verbs count them, so that their product is near the real thing.
struct LinkRate {
  std::uint8_t width;  // 1: 1x, 2: 4x
  std::uint8_t speed;  // 1: 2.5, 4: 10, 32: 25 Gb/s per lane
  const char* text;    // as in Linux's sysfs
};
/// Of an interface that is so fast; 0 is for unknown.
[[nodiscard]] LinkRate link_rate_of(std::uint32_t mbps) noexcept;

/// What has become of a port.
struct PortChange {
  bool is_gone = false;  // with its interface
  bool went_up = false;
  bool went_down = false;
  bool has_new_mac = false;   // as when one cable of a bond takes over from another
  bool has_new_rate = false;  // or MTU, which nobody is told
  std::vector<wire::Gid> gained{};
  std::vector<wire::Gid> lost{};

  [[nodiscard]] bool has_new_gids() const noexcept { return !gained.empty() || !lost.empty(); }
  [[nodiscard]] bool is_any() const noexcept {
    return is_gone || went_up || went_down || has_new_mac || has_new_rate || has_new_gids();
  }
};

/// What has changed since `before`, now that the interfaces are these.
[[nodiscard]] PortChange change_of(const PortInfo& before,
                                   const std::vector<Interface>& interfaces);
/// The port after the change. GIDs keep their places; the first one, which the device makes of its
/// GUID, always stays, and so does the GUID. Of a port that is gone nothing but the name is left.
[[nodiscard]] PortInfo changed(const PortInfo& before, const PortChange& change,
                               const std::vector<Interface>& interfaces);

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
