// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/headers/ids.h"
#include "wire/headers/local_route.h"

namespace verbatim::link {

/// The destination of one packet. On RoCE the GIDs are IP addresses. A native packet has a local
/// route, and a global route header only if the GIDs are not zero.
struct Outgoing {
  wire::Gid source{};
  wire::Gid destination{};
  std::uint16_t source_port = 0;  // a result of source_port()
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;  // 0: the default, which is 64
  wire::LocalRoute local{};
  std::uint32_t flow_label = 0;  // of a native packet

  friend bool operator==(const Outgoing&, const Outgoing&) = default;
};

/// Room for the next packets to send, and the IPv4 identification that their ICRCs are computed
/// with: the one that a packet will have if it continues the open train.
struct Frame {
  std::span<std::byte> octets{};     // for one packet of any length, or for as many as fit
  std::uint16_t identification = 0;  // of the first
  std::size_t packet_octets = 0;     // of the open train's packets; 0: none is open
  std::uint32_t packets_left = 0;    // that still fit into the open train
  std::uint32_t packets_max = 1;     // of one train; 1: packets go one by one
  std::size_t octets_max = 0;        // of one train
};

/// The contents of a frame: one packet, or several of equal length with consecutive
/// identifications.
struct Written {
  std::size_t octets = 0;  // of all of them
  std::uint32_t packets = 1;
  std::uint16_t identification = 0;  // of the first packet
};

/// A packet that arrived, from BTH to ICRC, or a train of packets of one flow, and the fields in
/// front of each that the ICRC covers.
struct Incoming {
  wire::Gid source{};
  wire::Gid destination{};
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  wire::LocalRoute local{};
  std::uint32_t flow_label = 0;         // of a native packet
  std::span<const std::byte> octets{};  // in the link's buffer, until the next receive()
  std::size_t segment_octets = 0;       // of each packet of a train but the last; 0: one packet

  /// Calls `take` with each packet's octets, in the order in which they were sent.
  template <typename Take>
  void for_each_packet(Take&& take) const {
    if (segment_octets == 0) return take(octets);
    for (std::size_t at = 0; at < octets.size(); at += segment_octets) {
      take(octets.subspan(at, std::min(segment_octets, octets.size() - at)));
    }
  }
};

/// Packets and their octets together.
struct Load {
  std::size_t packets = 0;
  std::size_t octets = 0;
};

/// Counters of the packets of a link.
struct LinkCounters {
  std::uint64_t packets_sent = 0;
  std::uint64_t packets_received = 0;
  std::uint64_t trains_sent = 0;      // of at least two packets
  std::uint64_t trains_received = 0;  // likewise
  std::uint64_t send_failures = 0;    // refused by the system; the packet is lost
  std::uint64_t too_large = 0;        // longer than the interface's MTU; lost as well
  std::uint64_t overlong = 0;         // arrived with more than kFrameOctets, discarded
};

inline constexpr std::size_t kFrameOctets = 4224;  // the longest packet, rounded up

}  // namespace verbatim::link
