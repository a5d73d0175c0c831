// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "wire/headers/ids.h"

namespace verbatim::device {

/// What the system knows of the hardware address behind an IP address.
enum class Neighbour : std::uint8_t {
  kUnknown,  // never asked for: it is behind a router, or no process has sent to it
  kSought,   // the question is on its way
  kFailed,   // there was no answer the last time
  kKnown,
};

/// Reads the system's table (ARP, neighbour discovery) as it is now. kUnknown as well when the
/// system does not show it.
[[nodiscard]] Neighbour look_up_neighbour(const wire::Gid& address);

}  // namespace verbatim::device
