// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/random_topology.h"

#include <string>

namespace verbatim::fabric::test {
namespace {

class Builder {
 public:
  explicit Builder(Prng& prng) : prng_(prng) {}

  std::uint32_t add(NodeKind kind, std::uint8_t ports) {
    const auto index = static_cast<std::uint32_t>(topology_.nodes.size());
    TopologyNode node;
    node.kind = kind;
    node.port_count = ports;
    node.id = (kind == NodeKind::kHost ? "h" : "s") + std::to_string(index);
    node.description = node.id;
    node.node_guid = wire::Guid{0x1'0000U + index * 0x100U};
    node.system_guid = node.node_guid;
    const unsigned guids = kind == NodeKind::kHost ? ports : 1;
    for (unsigned port = 1; port <= guids; ++port) {
      node.port_guids.push_back(wire::Guid{0x1'0000U + index * 0x100U + port});
    }
    node.vendor_id = 0x1405;
    topology_.nodes.push_back(node);
    next_port_.push_back(1);
    return index;
  }
  [[nodiscard]] bool has_free_port(std::uint32_t node) const {
    return next_port_[node] <= topology_.nodes[node].port_count;
  }
  void link(std::uint32_t a, std::uint32_t b) {
    topology_.links.push_back({.a = take(a), .b = take(b), .rate = {}});
  }
  /// One of the first `count` switches that has a port left.
  [[nodiscard]] std::uint32_t some_switch(const std::vector<std::uint32_t>& switches) {
    std::vector<std::uint32_t> free;
    for (const std::uint32_t node : switches) {
      if (has_free_port(node)) free.push_back(node);
    }
    return free[prng_.below(free.size())];
  }
  [[nodiscard]] Topology take_topology() { return std::move(topology_); }

 private:
  [[nodiscard]] PortEnd take(std::uint32_t node) {
    return {.node = node, .port = static_cast<std::uint8_t>(next_port_[node]++)};
  }

  Prng& prng_;
  Topology topology_{};
  std::vector<unsigned> next_port_{};  // by node: ports are used in order
};

}  // namespace

Topology random_topology(Prng& prng, const TopologySize& size) {
  Builder builder(prng);
  const auto hosts = static_cast<std::uint32_t>(prng.between(2, size.hosts_max));
  const auto switches = static_cast<std::uint32_t>(prng.between(1, size.switches_max));
  for (std::uint32_t i = 0; i < hosts; ++i) {
    (void)builder.add(NodeKind::kHost, prng.one_in(4) ? 2 : 1);
  }
  std::vector<std::uint32_t> built;
  for (std::uint32_t i = 0; i < switches; ++i) {
    // So many ports that a tree of all nodes always fits.
    const auto ports = static_cast<std::uint8_t>(prng.between(4, 10) + 2 * hosts / switches + 2);
    const std::uint32_t added = builder.add(NodeKind::kSwitch, ports);
    if (!built.empty()) builder.link(builder.some_switch(built), added);
    built.push_back(added);
  }
  for (std::uint32_t host = 0; host < hosts; ++host) {
    while (builder.has_free_port(host)) builder.link(host, builder.some_switch(built));
  }
  for (std::uint64_t more = prng.below(2 * switches); more > 0; --more) {
    const std::uint32_t a = built[prng.below(built.size())];
    const std::uint32_t b = built[prng.below(built.size())];
    if (a != b && builder.has_free_port(a) && builder.has_free_port(b)) builder.link(a, b);
  }
  return builder.take_topology();
}

}  // namespace verbatim::fabric::test
