// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wire/headers/ids.h"

namespace verbatim::device {

/// A network interface as the system describes it.
struct Interface {
  std::string name;
  std::uint32_t index = 0;
  bool is_up = false;       // by the administrator
  bool is_running = false;  // has a carrier
  bool is_loopback = false;
  bool is_bridge = false;
  bool has_default_route = false;  // the best one of IPv4
  std::uint32_t mtu = 1500;
  std::uint32_t speed_mbps = 0;  // 0: unknown
  std::optional<std::array<std::uint8_t, 6>> mac{};
  std::vector<wire::Gid> ipv4;        // as IPv4-mapped GIDs
  std::vector<wire::Gid> ipv6;        // global ones, and ::1
  std::vector<wire::Gid> link_local;  // fe80::/10
};

/// The interfaces of this network namespace, by index. IPv6 addresses that are tentative,
/// deprecated or duplicates of another host's are left out. Empty only where the system refuses the
/// list, because a sandbox forbids it or no descriptor is left: the loopback interface is always in
/// it.
[[nodiscard]] std::vector<Interface> read_interfaces();
inline constexpr const char* kNoList =
    "the system does not let this process list the interfaces; a sandbox must allow netlink "
    "sockets (AF_NETLINK), and `ulimit -n` must leave a descriptor";

}  // namespace verbatim::device
