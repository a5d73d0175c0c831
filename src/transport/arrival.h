// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/path.h"
#include "transport/qp_type.h"
#include "wire/headers/packet.h"

namespace verbatim::transport {

/// Octets in front of a datagram's payload in the receive buffer (IBA Vol 1, 11.4.2.1).
inline constexpr std::size_t kGrhOctets = 40;

/// A packet that arrived for a queue pair, with its addresses and its network header.
struct Arrival {
  const wire::PacketView& packet;
  wire::Gid source{};
  wire::Gid destination{};
  wire::LocalRoute local{};
  std::span<const std::byte, kGrhOctets> network_header;
};

/// Why a packet for this queue pair was dropped before the requester or the responder saw it.
enum class PacketDrop : std::uint8_t {
  kWrongState,      // the queue pair does not take packets, or not this kind, in its state
  kWrongTransport,  // an opcode of another service
  kWrongSource,     // not from, or not to, the address that the queue pair is connected with
  kWrongPartition,
};
inline constexpr std::size_t kPacketDropCount = 4;

/// Which key of a packet was not that of the queue pair: what a port of InfiniBand counts, and
/// tells its subnet manager of (IBA Vol 1, 14.2.5.1).
enum class KeyViolation : std::uint8_t { kPKey, kQKey };

/// Whether a queue pair of this type takes packets of this service and direction.
[[nodiscard]] inline bool is_of_service(QpType type, const wire::PacketView& packet) noexcept {
  if (packet.opcode() == wire::Opcode::kCnp) return true;
  if (packet.transport() != transport_of(type) || type == QpType::kRawPacket) return false;
  // An XRC target has no requester, and an XRC initiator has no responder.
  return type != (packet.info().is_response ? QpType::kXrcTarget : QpType::kXrcInitiator);
}

/// Why a queue pair of this type that is connected by `path` drops the packet in any state; nothing
/// when it does not (IBA Vol 1, 9.6). A datagram may come from any address.
///
/// Inline: it is called for each packet.
[[nodiscard]] inline std::optional<PacketDrop> find_fault(QpType type, const Path& path,
                                                          const Arrival& arrival) noexcept {
  if (!is_of_service(type, arrival.packet)) return PacketDrop::kWrongTransport;
  if (!pkeys_match(arrival.packet.bth().pkey(), path.pkey)) return PacketDrop::kWrongPartition;
  if (is_datagram(type)) return std::nullopt;
  // Each of the 2^LMC LIDs of this port is as good as the others.
  if (arrival.source != path.destination || arrival.destination != path.source ||
      arrival.local.source != path.local.destination) {
    return PacketDrop::kWrongSource;
  }
  return std::nullopt;
}

}  // namespace verbatim::transport
