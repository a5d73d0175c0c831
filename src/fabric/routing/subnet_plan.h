// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabric/node/forwarding_tables.h"
#include "fabric/node/node.h"
#include "fabric/topology/topology.h"
#include "wire/headers/lrh.h"

namespace verbatim::fabric {

/// The 2^lmc LIDs of a port; 0 is none.
struct PortLids {
  wire::Lid base{};
  std::uint8_t lmc = 0;
  friend bool operator==(const PortLids&, const PortLids&) noexcept = default;
};

/// On which lane a node sends packets of each service level out of one port that came in by another
/// one. In an adapter `in` is 0.
struct PlannedLanes {
  PortEnd out{};
  std::uint8_t in = 0;
  SwitchPart::LaneMap lanes{};
};

/// What a subnet manager decides about a fabric: the LIDs of ports and the tables of switches. Data
/// without any state; it belongs to one topology.
struct SubnetPlan {
  /// LIDs above it are multicast ones.
  static constexpr std::size_t kLastLid = ForwardingTables::kLinearLimit - 1;

  explicit SubnetPlan(const Topology& topology)
      : lids(topology.nodes.size()), tables(topology.nodes.size()) {
    for (std::size_t node = 0; node < lids.size(); ++node) {
      const TopologyNode& about = topology.nodes[node];
      lids[node].resize(about.kind == NodeKind::kSwitch ? 1 : about.port_count);
    }
  }

  /// The LIDs of a port of an adapter, or of port 0 of a switch.
  [[nodiscard]] const PortLids& lids_of(PortEnd end) const noexcept {
    return lids[end.node][end.port == 0 ? 0 : end.port - 1U];
  }
  [[nodiscard]] PortLids& lids_of(PortEnd end) noexcept {
    return lids[end.node][end.port == 0 ? 0 : end.port - 1U];
  }
  /// The port of a switch for a LID; kNoPort: it has none.
  [[nodiscard]] std::uint8_t port_for(std::uint32_t node, wire::Lid lid) const noexcept {
    const auto at = static_cast<std::size_t>(lid);
    return at < tables[node].size() ? tables[node][at] : ForwardingTables::kNoPort;
  }
  void set_port(std::uint32_t node, wire::Lid lid, std::uint8_t port) {
    const auto at = static_cast<std::size_t>(lid);
    if (tables[node].size() <= at) tables[node].resize(at + 1, ForwardingTables::kNoPort);
    tables[node][at] = port;
  }

  std::vector<std::vector<PortLids>> lids;  // by node: port 0 of a switch, or by port from 1 on
  std::vector<std::vector<std::uint8_t>> tables;  // by node, then by LID; of adapters empty
  std::vector<PlannedLanes> lanes{};              // where they are others than at the start
};

}  // namespace verbatim::fabric
