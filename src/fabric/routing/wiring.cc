// SPDX-License-Identifier: Apache-2.0
#include "fabric/routing/wiring.h"

namespace verbatim::fabric {

Wiring::Wiring(const Topology& topology) {
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    first_.push_back(static_cast<std::uint32_t>(ends_.size()));
    is_switch_.push_back(topology.nodes[node].kind == NodeKind::kSwitch);
    for (unsigned port = 0; port <= topology.nodes[node].port_count; ++port) {
      ends_.push_back({.node = node, .port = static_cast<std::uint8_t>(port)});
    }
  }
  first_.push_back(static_cast<std::uint32_t>(ends_.size()));
  peers_.resize(ends_.size());
  for (const TopologyLink& link : topology.links) {
    peers_[index_of(link.a)] = link.b;
    peers_[index_of(link.b)] = link.a;
  }
}

}  // namespace verbatim::fabric
