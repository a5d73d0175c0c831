// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "link/packet_burst.h"

namespace verbatim::loop {

/// Writes what a datagram's receive buffer gets in front of the payload: the IPv6 header, or 20
/// zero octets and the IPv4 header (annex A17.4.5), or the global route header of a native packet;
/// zero octets if that has none. A link does not show the header, so it is made again from the
/// addresses.
void fill_network_header(const link::Incoming& incoming, std::span<std::byte, 40> to) noexcept;

}  // namespace verbatim::loop
