// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/path.h"
#include "wire/headers/packet.h"

namespace verbatim::transport {

/// Room for packets of a train: packets of one flow and one length, one behind the other. Over IPv4
/// they are numbered, and the ICRC covers the number. A machine writes one packet of any length,
/// with the number that continues the open train, or several packets of equal length, as a
/// TrainPart describes.
struct TrainRoom {
  std::span<std::byte> frame{};      // at least wire::kMaxTransportOctets
  std::uint16_t identification = 0;  // over IPv4, of a packet that continues the open train
  std::size_t packet_octets = 0;     // of the open train's packets; 0: none is open
  std::uint32_t packets_left = 0;    // that the open train still takes
  std::uint32_t packets_max = 1;     // of a train; 1: one packet at a time
  std::size_t octets_max = wire::kMaxTransportOctets;  // of a train

  /// Packets of `octets` each that a train takes.
  [[nodiscard]] std::uint32_t packets_of(std::size_t octets) const noexcept {
    return static_cast<std::uint32_t>(std::min<std::size_t>(packets_max, octets_max / octets));
  }
};

/// The packets that a machine has written: one, or several of equal length.
struct TrainPart {
  std::size_t octets = 0;            // of all packets; 0: there is nothing to send now
  std::uint32_t packets = 0;         // how many
  std::uint16_t identification = 0;  // over IPv4, of the first; the next packets have the next ones
};

/// Packets of equal length that arrived together, in the order in which they were sent.
struct TrainArrival {
  std::span<const std::byte> octets{};  // whole packets
  std::size_t packet_octets = 0;        // of each
  std::uint16_t identification = 0;     // over IPv4, of the first, if a kernel numbered them
  const wire::IcrcSeed* seed = nullptr;
  wire::Gid source{};
  wire::Gid destination{};
};

}  // namespace verbatim::transport
