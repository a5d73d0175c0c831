// SPDX-License-Identifier: Apache-2.0
#include "fabric/topology/generate.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fabric/topology/line_scanner.h"
#include "fabric/topology/topology_builder.h"

namespace verbatim::fabric {
namespace {

using Counts = std::vector<std::uint32_t>;

std::uint8_t octet(std::size_t number) noexcept { return static_cast<std::uint8_t>(number); }

/// Numbers with `separators` between them, one of which follows each but the last. Empty when the
/// text is none.
Counts counts_in(std::string_view text, std::string_view separators) {
  Counts counts;
  for (std::size_t at = 0; at <= separators.size(); ++at) {
    const bool is_last = at == separators.size();
    const std::size_t end = is_last ? text.size() : text.find(separators[at]);
    if (end == std::string_view::npos) return {};
    const auto count = number_of(text.substr(0, end), 10, Topology::kNodesMax);
    if (!count || *count == 0) return {};
    counts.push_back(static_cast<std::uint32_t>(*count));
    text.remove_prefix(is_last ? end : end + 1);
  }
  return counts;
}

Errc refuse(std::string& message, std::string why) {
  message = std::move(why);
  return Errc::kInvalidArgument;
}

Errc refuse_shape(std::string& message, std::string_view shape, const char* expected) {
  return refuse(message, in_quotes(shape) + " is not " + expected);
}

std::string too_many_ports(std::size_t ports) {
  return "a switch would have " + std::to_string(ports) + " ports; " +
         std::to_string(Topology::kPortsMax) + " is the limit";
}

std::string too_many_nodes(std::size_t nodes) {
  return "these are " + std::to_string(nodes) + " nodes; " + std::to_string(Topology::kNodesMax) +
         " is the limit";
}

std::string numbered(const char* name, std::uint32_t number) {
  return name + std::to_string(number);
}

/// Adds `count` hosts at the first ports of a switch.
void add_hosts(TopologyBuilder& builder, std::uint32_t at_switch, std::uint32_t count,
               std::uint32_t& next) {
  for (std::uint32_t host = 0; host < count; ++host) {
    const std::uint32_t node = builder.add_host(numbered("h", next++));
    builder.connect({node, 1}, {at_switch, octet(host + 1)});
  }
}

}  // namespace

Expected<Topology> tree_topology(std::string_view shape, LinkRate rate, std::string& message) {
  constexpr std::uint32_t kUplinks = 2;
  const Counts counts = counts_in(shape, "x");
  if (counts.empty()) {
    return refuse_shape(message, shape, "a tree: SWITCHESxHOSTS, as 2x2 (hosts of each switch)");
  }
  const std::uint32_t leaves = counts[0];
  const std::uint32_t hosts = counts[1];
  const std::size_t most_ports =
      std::max<std::size_t>(hosts + kUplinks, leaves > 2 ? std::size_t{leaves} * kUplinks : 0);
  if (most_ports > Topology::kPortsMax) return refuse(message, too_many_ports(most_ports));
  const std::size_t nodes = std::size_t{leaves} * (hosts + 1) + 1;
  if (nodes > Topology::kNodesMax) return refuse(message, too_many_nodes(nodes));

  TopologyBuilder builder(rate);
  std::vector<std::uint32_t> switches;
  const std::uint32_t leaf_ports = leaves > 1 ? hosts + kUplinks : hosts;
  for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
    switches.push_back(builder.add_switch(numbered("leaf", leaf), octet(leaf_ports)));
  }
  std::uint32_t next_host = 0;
  for (const std::uint32_t leaf : switches) add_hosts(builder, leaf, hosts, next_host);
  for (std::uint32_t uplink = 1; leaves == 2 && uplink <= kUplinks; ++uplink) {
    builder.connect({switches[0], octet(hosts + uplink)}, {switches[1], octet(hosts + uplink)});
  }
  if (leaves <= 2) return builder.take();
  const std::uint32_t spine = builder.add_switch("spine0", octet(leaves * kUplinks));
  for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
    for (std::uint32_t uplink = 1; uplink <= kUplinks; ++uplink) {
      builder.connect({switches[leaf], octet(hosts + uplink)},
                      {spine, octet(leaf * kUplinks + uplink)});
    }
  }
  return builder.take();
}

Expected<Topology> ring_topology(std::string_view shape, LinkRate rate, std::string& message) {
  constexpr std::uint32_t kLeast = 3;
  const Counts counts = counts_in(shape, "");
  if (counts.empty() || counts[0] < kLeast) {
    return refuse_shape(message, shape, "a ring: the number of switches, 3 or more, as 6");
  }
  const std::uint32_t count = counts[0];
  if (count * 2 > Topology::kNodesMax) return refuse(message, too_many_nodes(count * 2));
  TopologyBuilder builder(rate);
  for (std::uint32_t at = 0; at < count; ++at) (void)builder.add_switch(numbered("sw", at), 3);
  std::uint32_t next_host = 0;
  for (std::uint32_t at = 0; at < count; ++at) add_hosts(builder, at, 1, next_host);
  for (std::uint32_t at = 0; at < count; ++at) builder.connect({at, 2}, {(at + 1) % count, 3});
  return builder.take();
}

Expected<Topology> fat_tree_topology(std::string_view shape, LinkRate rate, std::string& message) {
  const Counts counts = counts_in(shape, "x/");
  if (counts.empty()) {
    return refuse_shape(message, shape,
                        "a fat tree: LEAVESxHOSTS/SPINES, as 32x32/16 (hosts of each leaf)");
  }
  const std::uint32_t leaves = counts[0];
  const std::uint32_t hosts = counts[1];
  const std::uint32_t spines = counts[2];
  const std::size_t most_ports = std::max<std::size_t>(std::size_t{hosts} + spines, leaves);
  if (most_ports > Topology::kPortsMax) return refuse(message, too_many_ports(most_ports));
  const std::size_t nodes = std::size_t{leaves} * (hosts + 1) + spines;
  if (nodes > Topology::kNodesMax) return refuse(message, too_many_nodes(nodes));

  TopologyBuilder builder(rate);
  for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
    (void)builder.add_switch(numbered("leaf", leaf), octet(hosts + spines));
  }
  for (std::uint32_t spine = 0; spine < spines; ++spine) {
    (void)builder.add_switch(numbered("spine", spine), octet(leaves));
  }
  std::uint32_t next_host = 0;
  for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) add_hosts(builder, leaf, hosts, next_host);
  for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
    for (std::uint32_t spine = 0; spine < spines; ++spine) {
      builder.connect({leaf, octet(hosts + spine + 1)}, {leaves + spine, octet(leaf + 1)});
    }
  }
  return builder.take();
}

namespace {

/// Switches on a torus. The number of one is made of its coordinates, the last of which counts
/// fastest.
struct Grid {
  Counts extents;

  [[nodiscard]] std::uint32_t stride(std::size_t dimension) const noexcept {
    std::uint32_t stride = 1;
    for (std::size_t at = dimension + 1; at < extents.size(); ++at) stride *= extents[at];
    return stride;
  }
  [[nodiscard]] std::uint32_t coordinate(std::uint32_t number, std::size_t dimension) const {
    return number / stride(dimension) % extents[dimension];
  }
  /// The next switch of a dimension, around the end.
  [[nodiscard]] std::uint32_t next(std::uint32_t number, std::size_t dimension) const {
    const std::uint32_t here = coordinate(number, dimension);
    const std::uint32_t there = (here + 1) % extents[dimension];
    return number + (there - here) * stride(dimension);
  }
  [[nodiscard]] std::string name(std::uint32_t number) const {
    std::string name = "sw";
    for (std::size_t dimension = 0; dimension < extents.size(); ++dimension) {
      name += (dimension == 0 ? "" : ".") + std::to_string(coordinate(number, dimension));
    }
    return name;
  }
};

}  // namespace

Expected<Topology> torus_topology(std::string_view shape, LinkRate rate, std::string& message) {
  Counts extents = counts_in(shape, "xx");
  if (extents.empty()) extents = counts_in(shape, "x");
  const bool is_valid = !extents.empty() && std::ranges::all_of(extents, [](std::uint32_t extent) {
    return extent >= 3;  // with two, both directions lead to one neighbour
  });
  if (!is_valid) {
    return refuse_shape(message, shape, "a torus: the extents, each 3 or more, as 4x4 or 3x3x3");
  }
  std::size_t count = 1;
  for (const std::uint32_t extent : extents) count *= extent;
  if (count * 2 > Topology::kNodesMax) return refuse(message, too_many_nodes(count * 2));
  const Grid grid{extents};
  TopologyBuilder builder(rate);
  const auto switches = static_cast<std::uint32_t>(count);
  for (std::uint32_t at = 0; at < switches; ++at) {
    (void)builder.add_switch(grid.name(at), octet(1 + 2 * extents.size()));
  }
  std::uint32_t next_host = 0;
  for (std::uint32_t at = 0; at < switches; ++at) add_hosts(builder, at, 1, next_host);
  for (std::uint32_t at = 0; at < switches; ++at) {
    for (std::size_t dimension = 0; dimension < extents.size(); ++dimension) {
      const std::uint8_t forward = octet(2 + 2 * dimension);
      builder.connect({at, forward}, {grid.next(at, dimension), octet(forward + 1U)});
    }
  }
  return builder.take();
}

}  // namespace verbatim::fabric
