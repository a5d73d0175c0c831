// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "link/packet_burst.h"
#include "wire/headers/grh.h"
#include "wire/headers/lrh.h"

namespace verbatim::link {

/// The most that stands in front of the BTH of a native packet.
inline constexpr std::size_t kNativeHeadersMax = wire::Lrh::kSize + wire::Grh::kSize;

/// Writes the headers in front of the BTH of a native packet, `transport_octets` long from there to
/// the ICRC: a local route header, and a global one if the packet has GIDs. The virtual lane is 0.
/// `into` has at least kNativeHeadersMax octets. Returns how many were written.
[[nodiscard]] std::size_t write_native_headers(const Outgoing& to, std::size_t transport_octets,
                                               std::span<std::byte> into) noexcept;

}  // namespace verbatim::link
