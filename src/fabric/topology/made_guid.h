// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "fabric/topology/topology.h"
#include "wire/headers/guid.h"

namespace verbatim::fabric {

/// The vendor of nodes for which a topology names none: a locally administered OUI, so that no
/// vendor's attributes are asked for.
inline constexpr std::uint32_t kMadeVendorId = 0x02'56'42;
inline constexpr std::uint16_t kMadeHostDevice = 1;
inline constexpr std::uint16_t kMadeSwitchDevice = 2;

/// A GUID for a node that a topology names no GUID for. The ports of the node follow it.
[[nodiscard]] constexpr wire::Guid made_guid(NodeKind kind, std::uint32_t index) noexcept {
  const std::uint64_t kind_octet = kind == NodeKind::kHost ? 1 : 2;
  return wire::Guid{std::uint64_t{kMadeVendorId} << 40 | kind_octet << 32 |
                    std::uint64_t{index} << 8};
}

[[nodiscard]] constexpr wire::Guid guid_after(wire::Guid guid, std::uint64_t by) noexcept {
  return wire::Guid{static_cast<std::uint64_t>(guid) + by};
}

}  // namespace verbatim::fabric
