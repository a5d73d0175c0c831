// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "base/version.h"
#include "device/config.h"
#include "device/fabric_port.h"
#include "device/interface_list.h"
#include "wire/headers/ids.h"

namespace verbatim::device {

/// One entry of a port's GID table.
struct GidEntry {
  wire::Gid gid{};
  std::uint32_t interface_index = 0;
};

/// A network interface as an adapter with one port, or the adapter of a node of a fabric: the
/// attributes that the verbs report.
struct PortInfo {
  std::string name;       // vb0, vb1, ...
  std::string interface;  // eth0, ...
  std::uint32_t interface_index = 0;
  std::array<std::uint8_t, 8> guid{};  // from the MAC address (EUI-64), or invented for lo
  std::optional<std::array<std::uint8_t, 6>> mac{};
  std::uint32_t interface_mtu = 1500;
  wire::PathMtu active_mtu = wire::PathMtu::k1024;  // the largest path MTU that fits the interface
  std::uint32_t speed_mbps = 0;                     // 0: unknown
  bool is_up = true;
  /// Link-local first, then IPv4, then IPv6 addresses. While a device is open, an entry that is
  /// removed leaves a hole (the zero GID) for a later one.
  std::vector<GidEntry> gids;
  std::optional<FabricPort> fabric{};  // nothing: the port is a network interface

  [[nodiscard]] bool has(const wire::Gid& gid) const noexcept;
  /// The partition keys; zero entries are empty. On RoCE there is the default one only.
  [[nodiscard]] std::vector<wire::PKey> pkeys() const {
    return fabric ? fabric->pkeys : std::vector{wire::PKey::kDefault};
  }
  /// The key of the default partition, as full or limited member; where the port is not in it, the
  /// first key that it has.
  [[nodiscard]] wire::PKey default_pkey() const;
  /// Where the key of a partition is in the table; nothing: the port is not in the partition.
  [[nodiscard]] std::optional<std::uint16_t> index_of_partition(wire::PKey key) const;
};

/// The capability mask of every port: connection managers are supported, and GIDs are IP addresses.
inline constexpr std::uint32_t kPortCapabilities = 0x0401'0000;
/// The firmware version that devices report.
inline constexpr const char* kFirmwareVersion = kVersionText;

/// Width and speed in the encoding of the verbs. Their product is close to the real rate.
struct LinkRate {
  std::uint8_t width;  // 1: 1x, 2: 4x
  std::uint8_t speed;  // 1: 2.5, 4: 10, 32: 25 Gb/s per lane
  const char* text;    // as in Linux's sysfs
};
/// The rate for an interface of this speed; 0 means unknown.
[[nodiscard]] LinkRate link_rate_of(std::uint32_t mbps) noexcept;

/// How a port has changed.
struct PortChange {
  bool is_gone = false;  // the interface does not exist any more
  bool went_up = false;
  bool went_down = false;
  bool has_new_mac = false;      // as when a bond changes to another cable
  bool has_new_details = false;  // rate, MTU, counters; no event reports it
  // Of the port of a fabric.
  bool has_new_lid = false;
  bool has_new_sm = false;
  bool has_new_pkeys = false;
  bool wants_reregistration = false;  // with the subnet manager
  std::vector<wire::Gid> gained{};
  std::vector<wire::Gid> lost{};

  [[nodiscard]] bool has_new_gids() const noexcept { return !gained.empty() || !lost.empty(); }
  [[nodiscard]] bool is_any() const noexcept {
    return is_gone || went_up || went_down || has_new_mac || has_new_details || has_new_lid ||
           has_new_sm || has_new_pkeys || wants_reregistration || has_new_gids();
  }
};

/// The changes from `before` to the present `interfaces`.
[[nodiscard]] PortChange change_of(const PortInfo& before,
                                   const std::vector<Interface>& interfaces);
/// The change of the port of a fabric.
[[nodiscard]] PortChange fabric_change_of(const PortInfo& before, const PortInfo& now);
/// The port after the change. GIDs keep their places. The first one, which the device makes from
/// its GUID, always stays, and so does the GUID. A port that is gone keeps only its name.
[[nodiscard]] PortInfo changed(const PortInfo& before, const PortChange& change,
                               const std::vector<Interface>& interfaces);

/// Whether an interface can be a device: it has an address from which packets can be sent beyond
/// its link.
[[nodiscard]] bool has_usable_address(const Interface& interface) noexcept;

/// The largest path MTU whose packets fit, with 80 octets for headers, as in Linux.
[[nodiscard]] wire::PathMtu active_mtu_of(std::uint32_t interface_mtu) noexcept;

/// find_ports() for the given interfaces.
[[nodiscard]] std::vector<PortInfo> ports_of(const std::vector<Interface>& interfaces,
                                             const Config& config);

/// The adapters that a program has, by the environment. On failure `message` says which variable is
/// wrong, or why there is no fabric.
[[nodiscard]] Expected<std::vector<PortInfo>> find_ports(std::string& message);
/// The adapters of this host: interfaces that are up, not loopback and not bridges, the default
/// route's first; lo only when there is no other, or when it is named.
[[nodiscard]] std::vector<PortInfo> find_ports(const Config& config);

}  // namespace verbatim::device
