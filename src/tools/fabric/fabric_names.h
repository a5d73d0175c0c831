// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "fabric/drop_reason.h"
#include "fabric/packet_header.h"
#include "fabric/topology/topology.h"
#include "wire/headers/guid.h"
#include "wire/management/port_state.h"

/// Words of the output of `verbatim fabric`. Those of ports are the words of infiniband-diags.
namespace verbatim::tools {

using fabric::name_of;

[[nodiscard]] const char* name_of(fabric::NodeKind kind) noexcept;
[[nodiscard]] const char* name_of(fabric::PacketKind kind) noexcept;
[[nodiscard]] const char* name_of(wire::PortState state) noexcept;
[[nodiscard]] const char* name_of(wire::PortPhysicalState state) noexcept;
/// With 0x and four digits at least.
[[nodiscard]] std::string hexadecimal(unsigned number);
/// With 0x and 16 digits.
[[nodiscard]] std::string text_of(wire::Guid guid);

/// The port of a node that has its LID: the first one of an adapter, port 0 of a switch.
[[nodiscard]] inline std::uint8_t management_port_of(const fabric::TopologyNode& node) noexcept {
  return node.kind == fabric::NodeKind::kSwitch ? 0 : 1;
}

}  // namespace verbatim::tools
