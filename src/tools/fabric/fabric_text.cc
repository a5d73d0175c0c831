// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>

#include "tools/fabric/fabric_names.h"
#include "tools/fabric/fabric_view.h"
#include "tools/fabric/text_table.h"
#include "tools/text.h"

namespace verbatim::tools {
namespace {

using fabric::NodeKind;
using fabric::PortEnd;

using Row = std::vector<std::string>;

std::string lid_text(wire::Lid lid) {
  return lid == wire::Lid{} ? "-" : std::to_string(static_cast<unsigned>(lid));
}

std::string counted(std::size_t count, const char* one, const char* several) {
  return std::to_string(count) + " " + (count == 1 ? one : several);
}

}  // namespace

std::string text_of(const FabricSummary& summary) {
  std::string text = counted(summary.switches, "switch", "switches") + ", " +
                     counted(summary.hosts, "host", "hosts") + ", " +
                     counted(summary.links, "link", "links") + "\n";
  text += std::to_string(summary.ports.active) + " of " + std::to_string(summary.ports.cabled) +
          " ports are Active, " + std::to_string(summary.ports.linked) +
          " have a link that is up\n";
  text += summary.managers.empty() ? "no subnet manager" : "subnet manager on";
  for (const std::string& port : summary.managers) text += " " + printable(port);
  return text + "\n" + std::to_string(summary.drops) + " packets discarded\n";
}

std::string nodes_text(const FabricView& view) {
  std::vector<Row> rows{
      {"NODE", "KIND", "GUID", "PORTS", "LID", "ADDRESS", "POWER", "DESCRIPTION"}};
  const auto& nodes = view.fabric.topology().nodes;
  for (std::uint32_t node = 0; node < nodes.size(); ++node) {
    const fabric::TopologyNode& about = nodes[node];
    const PortEnd end{node, management_port_of(about)};
    const std::uint32_t address = view.addresses.address_of(node);
    rows.push_back({view.names.name_of(node), name_of(about.kind), text_of(about.node_guid),
                    std::to_string(about.port_count), lid_text(view.fabric.port_status(end).lid),
                    address != 0 ? fabric::address_text(address) : "-",
                    view.fabric.has_power(node) ? "on" : "off", view.fabric.description(node)});
  }
  return table_of(rows);
}

std::string links_text(const FabricView& view) {
  std::vector<Row> rows{{"PORT", "PORT", "RATE", "STATE", "CABLE"}};
  for (const fabric::TopologyLink& link : view.fabric.topology().links) {
    const fabric::PortStatus status = view.fabric.port_status(link.a);
    rows.push_back({view.names.name_of(link.a), view.names.name_of(link.b),
                    fabric::text_of(status.rate), name_of(status.state),
                    view.fabric.has_cable(link.a) ? "in" : "out"});
  }
  return table_of(rows);
}

std::string ports_text(const FabricView& view, std::optional<std::uint32_t> only) {
  std::vector<Row> rows{{"PORT", "STATE", "PHYSICAL", "LID", "SM LID", "RATE", "PEER"}};
  const auto& nodes = view.fabric.topology().nodes;
  for (std::uint32_t node = only.value_or(0); node < nodes.size(); ++node) {
    for (unsigned port = management_port_of(nodes[node]); port <= nodes[node].port_count; ++port) {
      const PortEnd end{node, static_cast<std::uint8_t>(port)};
      const fabric::PortStatus status = view.fabric.port_status(end);
      const auto peer = view.fabric.peer_of(end);
      rows.push_back({view.names.name_of(end), name_of(status.state),
                      name_of(status.physical_state), lid_text(status.lid), lid_text(status.sm_lid),
                      peer ? fabric::text_of(status.rate) : "-",
                      peer ? view.names.name_of(*peer) : "-"});
    }
    if (only) break;
  }
  return table_of(rows);
}

std::string drops_text(const FabricView& view) {
  std::string text;
  for (std::size_t at = 0; at < fabric::kDropReasonCount; ++at) {
    const auto reason = static_cast<fabric::DropReason>(at);
    const std::uint64_t count = view.fabric.drop_count(reason);
    if (count != 0) text += std::to_string(count) + " " + name_of(reason) + "\n";
  }
  if (text.empty()) return "nothing was discarded\n";
  std::vector<Row> rows{
      {"SECONDS", "PORT", "REASON", "PACKET", "FROM LID", "TO LID", "TO QP", "CLASS", "ATTRIBUTE"}};
  for (const fabric::DropRecord& drop : view.fabric.recent_drops()) {
    std::array<char, 32> seconds{};
    std::snprintf(seconds.data(), seconds.size(), "%.6f",
                  std::chrono::duration<double>(drop.at.since_start()).count());
    const bool is_data = drop.kind == fabric::PacketKind::kData;
    rows.push_back({seconds.data(), view.names.name_of(drop.port), name_of(drop.reason),
                    name_of(drop.kind), lid_text(drop.source), lid_text(drop.destination),
                    hexadecimal(static_cast<unsigned>(drop.dest_qp)),
                    is_data ? "-" : hexadecimal(static_cast<unsigned>(drop.mgmt_class)),
                    is_data ? "-" : hexadecimal(drop.attribute_id)});
  }
  return text + "the last of them:\n" + table_of(rows);
}

std::string route_text(const FabricView& view, const FabricRoute& route) {
  std::string text =
      "from LID " + lid_text(route.source) + " to LID " + lid_text(route.destination) + "\n";
  for (const RouteStep& step : route.steps) {
    text += "  " + printable(view.names.name_of(step.from)) + " -> " +
            printable(view.names.name_of(step.to)) + "\n";
  }
  if (!route.obstacle.empty()) text += "  " + printable(route.obstacle) + "\n";
  return text;
}

}  // namespace verbatim::tools
