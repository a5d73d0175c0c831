// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_view.h"

#include <cstdint>

#include "tools/fabric/fabric_names.h"

namespace verbatim::tools {
namespace {

using fabric::NodeKind;
using fabric::PortEnd;
using fabric::TopologyNode;

/// More hops than any subnet has: the tables form a loop.
constexpr std::size_t kHopsMax = 64;
/// The bit of the capability mask that a subnet manager runs on the port (IBA Vol 1, 14.2.5.6).
constexpr std::uint32_t kIsSm = 2;

}  // namespace

FabricSummary summary_of(const FabricView& view) {
  const fabric::Topology& topology = view.fabric.topology();
  FabricSummary summary;
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    const TopologyNode& about = topology.nodes[node];
    ++(about.kind == NodeKind::kHost ? summary.hosts : summary.switches);
    const unsigned last = about.kind == NodeKind::kHost ? about.port_count : 0;
    for (unsigned port = management_port_of(about); port <= last; ++port) {
      const PortEnd end{node, static_cast<std::uint8_t>(port)};
      if ((view.fabric.port_status(end).capability_mask & kIsSm) != 0) {
        summary.managers.push_back(view.names.name_of(end));
      }
    }
  }
  summary.links = topology.links.size();
  summary.ports = view.fabric.census();
  for (std::size_t reason = 0; reason < fabric::kDropReasonCount; ++reason) {
    summary.drops += view.fabric.drop_count(static_cast<fabric::DropReason>(reason));
  }
  return summary;
}

FabricRoute route_between(const FabricView& view, PortEnd from, PortEnd to) {
  FabricRoute route;
  route.source = view.fabric.port_status(from).lid;
  route.destination = view.fabric.port_status(to).lid;
  if (route.destination == wire::Lid{}) {
    route.obstacle = view.names.name_of(to) + " has no LID; does a subnet manager run?";
    return route;
  }
  if (from == to) return route;  // it does not leave the port
  PortEnd out = from;
  while (route.steps.size() < kHopsMax) {
    const auto peer = view.fabric.peer_of(out);
    const wire::PortState state = view.fabric.port_status(out).state;
    if (!peer || state < wire::PortState::kInitialize) {
      route.obstacle = "the link of " + view.names.name_of(out) + " is down";
      return route;
    }
    if (state != wire::PortState::kActive) {
      route.obstacle = view.names.name_of(out) + " discards it: it is in state " + name_of(state);
      return route;
    }
    route.steps.push_back({out, *peer});
    if (*peer == to) return route;
    const TopologyNode& here = view.fabric.topology().nodes[peer->node];
    if (here.kind == NodeKind::kHost) {
      route.obstacle = view.names.name_of(peer->node) + " discards it: it has another LID";
      return route;
    }
    const auto next = view.fabric.route_of(peer->node, route.destination);
    if (!next) {
      route.obstacle = view.names.name_of(peer->node) + " discards it: no entry for the LID";
      return route;
    }
    if (*next == 0) {
      if (to.node != peer->node) route.obstacle = "it ends at " + view.names.name_of(peer->node);
      return route;
    }
    if (*next == peer->port) {
      route.obstacle = view.names.name_of(peer->node) +
                       " discards it: it would leave through the port at which it arrived";
      return route;
    }
    out = {peer->node, *next};
  }
  route.obstacle = "the tables of the switches send it around";
  return route;
}

}  // namespace verbatim::tools
