// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <span>
#include <vector>

namespace verbatim::link {

/// Requests for connections to this service belong to the process in this slot.
struct ServiceRoute {
  std::uint32_t service = 0;  // the lower half of the service ID: port space and port
  std::uint32_t slot = 0;
};

/// The most routes that fit into one program.
inline constexpr std::size_t kServiceRoutesMax = 1024;

/// The classic BPF program that chooses the socket of a packet: the slot of the process that the
/// packet is for. Offsets count from the BTH. A packet that is too short goes to slot 0.
///
/// - Management datagrams are addressed to queue pair 1 of the host. An answer of the connection
///   manager carries the communication ID of the process that sent the request, and the first octet
///   of that ID is the slot (IBA Vol 1, 12.6; wire/cm/addressee.h). A request goes by `routes`, and
///   to slot `fallback` if there is no route for it; so do datagrams of other classes.
/// - Every other queue pair has the slot as the upper octet of its number.
[[nodiscard]] std::vector<sock_filter> steering_program(std::span<const ServiceRoute> routes,
                                                        std::uint32_t fallback = 0);

/// The classic BPF program of one socket that admits the packets of one slot only: those that
/// steering_program() would send there, without requests for connections, which carry no slot.
/// Offsets count from the UDP header, as the filter of a socket sees them.
[[nodiscard]] std::vector<sock_filter> slot_filter(std::uint32_t slot);

}  // namespace verbatim::link
