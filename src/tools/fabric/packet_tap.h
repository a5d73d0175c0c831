// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "fabric/taps/tapped_packet.h"

namespace verbatim::tools {

/// Takes the packets that have passed tapped ports.
class PacketTap {
 public:
  PacketTap() = default;
  PacketTap(const PacketTap&) = delete;
  PacketTap& operator=(const PacketTap&) = delete;
  virtual ~PacketTap() = default;

  /// `octets` are those of a packet of a program, from the LRH to the ICRC, as its sender has
  /// written them; the process can change them at any time.
  virtual void take(const fabric::TappedPacket& packet,
                    std::span<const std::byte> octets) noexcept = 0;
};

}  // namespace verbatim::tools
