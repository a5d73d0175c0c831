// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "udp/udp_socket.h"

namespace verbatim::link {

/// A UDP socket as the system lists it in /proc/net/udp and udp6.
struct UdpTableEntry {
  wire::Gid address{};  // all zero, or ::ffff:0.0.0.0: every address
  std::uint16_t port = 0;
  uid_t uid = 0;
  std::uint64_t inode = 0;

  /// Bound to all addresses of the kind of `gid`, or to all IPv6 addresses: the list does not say
  /// whether these include IPv4.
  [[nodiscard]] bool may_take_all_like(const wire::Gid& gid) const noexcept;
};

/// Reads one line of those files; nothing for a heading and for any other line.
[[nodiscard]] std::optional<UdpTableEntry> parse_udp_table_line(std::string_view line) noexcept;

/// The sockets of this network namespace, of all users, on `port`.
[[nodiscard]] std::vector<UdpTableEntry> read_udp_table(std::uint16_t port);

/// How many sockets are bound to exactly this address and port, on any link, because the link is
/// not listed. Nothing when the system does not list sockets.
[[nodiscard]] std::optional<std::size_t> count_sockets(const LocalAddress& address,
                                                       std::uint16_t port);

/// Whether count_sockets() counts the sockets of this address alone. An address that has a meaning
/// on one link only may exist on several links.
[[nodiscard]] bool counts_exactly(const LocalAddress& address);

/// The user whose sockets are bound to exactly this address and port; nothing when there are none.
/// Sockets that are bound to all addresses are not considered: their user lends none, and only
/// bind(2) shows whether they block this address.
[[nodiscard]] std::optional<uid_t> user_of_port(const LocalAddress& address, std::uint16_t port);

/// The user and the process that block an address and port, in words: "user alice (uid 1000),
/// process 4711 (ib_send_bw)". Sockets at exactly this address come before sockets at all
/// addresses. The process is named if the system shows it. Empty when there is none.
[[nodiscard]] std::string name_port_holder(const LocalAddress& address, std::uint16_t port);

}  // namespace verbatim::link
