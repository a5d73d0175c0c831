// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "fabric/data/data_packet.h"

namespace verbatim::tools {

/// What a fabric reads of a native packet of a program, without its handle: `start` is the first
/// part of the packet, with all headers up to the DETH, and `octets` counts all, from LRH to ICRC.
/// Empty: the lengths do not agree, or programs cannot send such a packet (subnet management goes
/// another way).
[[nodiscard]] std::optional<fabric::DataPacket> data_packet_of(std::span<const std::byte> start,
                                                               std::size_t octets) noexcept;

}  // namespace verbatim::tools
