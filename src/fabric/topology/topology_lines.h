// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// What is wrong with a text, and where.
struct TopologyError {
  std::size_t line = 0;  // from 1; 0: the text as a whole
  std::string message;   // one line of printable characters
};

/// A node as the lines about it say. GUIDs that they do not mention are zero.
struct StatedNode {
  TopologyNode node;  // port_guids has an entry for each port
  std::size_t line = 0;
};

/// A line about a port: what is connected to it. Borrows the text.
struct StatedPort {
  std::size_t line = 0;
  PortEnd end;
  std::string_view remote_id;
  std::uint8_t remote_port = 0;
  wire::Guid remote_guid{};      // zero: not mentioned
  std::optional<LinkRate> rate;  // none: not mentioned
};

struct TopologyLines {
  std::vector<StatedNode> nodes;
  std::vector<StatedPort> ports;
};

/// Reads the lines of a text, one by one. Whether they agree with each other is not its business.
[[nodiscard]] Expected<TopologyLines> read_topology_lines(std::string_view text,
                                                          TopologyError& error);

}  // namespace verbatim::fabric
