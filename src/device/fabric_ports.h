// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/expected.h"
#include "device/port_info.h"
#include "host/fabric_choice.h"
#include "host/fabric_client.h"

namespace verbatim::device {

/// The adapter of the node on which this program runs, as a list of one. An adapter with several
/// ports shows its first one. On failure `message` says why there is none: the fabric does not
/// run, has no such node, or the node is a switch.
[[nodiscard]] Expected<std::vector<PortInfo>> find_fabric_ports(std::string& message);

/// Whether this program runs on a node of a fabric, and has no other adapter.
[[nodiscard]] bool is_on_fabric() noexcept;

/// Enters the directory of the node's processes (host/runtime_directory.h), if the program runs on
/// a node of a fabric. On failure `message` says why.
[[nodiscard]] Status enter_node(std::string& message);

/// The first port of a node.
[[nodiscard]] PortInfo fabric_port_of(const std::string& node_name, const host::NodeView& node);

}  // namespace verbatim::device
