// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "fabric/fabric.h"
#include "fabric/topology/node_addresses.h"
#include "fabric/topology/node_names.h"
#include "tools/json.h"

/// What `verbatim fabric show` shows: values that text and JSON are made of.
namespace verbatim::tools {

/// A fabric, and the names and addresses in it. Borrows all three.
struct FabricView {
  const fabric::Fabric& fabric;
  const fabric::NodeNames& names;
  const fabric::NodeAddresses& addresses;
};

struct FabricSummary {
  std::size_t hosts = 0;
  std::size_t switches = 0;
  std::size_t links = 0;
  fabric::PortCensus ports{};
  std::vector<std::string> managers{};  // ports on which a subnet manager runs
  std::uint64_t drops = 0;
};
[[nodiscard]] FabricSummary summary_of(const FabricView& view);

/// One step of a packet: from a port over its link to another one.
struct RouteStep {
  fabric::PortEnd from;
  fabric::PortEnd to;
};
struct FabricRoute {
  wire::Lid source{};
  wire::Lid destination{};
  std::vector<RouteStep> steps{};
  std::string obstacle{};  // why it ends there; empty: it arrives
};
/// The way of a packet from one port of an adapter to another, as the tables of the switches have
/// it.
[[nodiscard]] FabricRoute route_between(const FabricView& view, fabric::PortEnd from,
                                        fabric::PortEnd to);

[[nodiscard]] std::string text_of(const FabricSummary& summary);
[[nodiscard]] Json json_of(const FabricSummary& summary);
[[nodiscard]] std::string nodes_text(const FabricView& view);
[[nodiscard]] Json nodes_json(const FabricView& view);
[[nodiscard]] std::string links_text(const FabricView& view);
[[nodiscard]] Json links_json(const FabricView& view);
/// Of one node, or of all.
[[nodiscard]] std::string ports_text(const FabricView& view, std::optional<std::uint32_t> node);
[[nodiscard]] Json ports_json(const FabricView& view, std::optional<std::uint32_t> node);
[[nodiscard]] std::string drops_text(const FabricView& view);
[[nodiscard]] Json drops_json(const FabricView& view);
[[nodiscard]] std::string route_text(const FabricView& view, const FabricRoute& route);
[[nodiscard]] Json route_json(const FabricView& view, const FabricRoute& route);

}  // namespace verbatim::tools
