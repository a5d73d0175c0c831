// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_names.h"
#include "tools/fabric/fabric_view.h"

namespace verbatim::tools {
namespace {

using fabric::PortEnd;

Json port_json(const FabricView& view, PortEnd end) {
  const fabric::PortStatus status = view.fabric.port_status(end);
  Json port{{"node", view.names.name_of(end.node)},
            {"port", end.port},
            {"guid", text_of(status.port_guid)},
            {"state", name_of(status.state)},
            {"physical_state", name_of(status.physical_state)},
            {"lid", static_cast<unsigned>(status.lid)},
            {"lmc", status.lmc},
            {"sm_lid", static_cast<unsigned>(status.sm_lid)},
            {"rate", fabric::text_of(status.rate)},
            {"mtu", wire::octets_of(status.mtu)},
            {"peer", nullptr}};
  const auto count = [&](wire::PortCounter counter) { return view.fabric.counter(end, counter); };
  port["counters"] = {
      {"sent_packets", count(wire::PortCounter::kTransmitPackets)},
      {"sent_words", count(wire::PortCounter::kTransmitWords)},
      {"received_packets", count(wire::PortCounter::kReceivePackets)},
      {"received_words", count(wire::PortCounter::kReceiveWords)},
      {"discards", count(wire::PortCounter::kTransmitDiscards)},
      {"sent_constraint_errors", count(wire::PortCounter::kTransmitConstraintErrors)},
      {"received_constraint_errors", count(wire::PortCounter::kReceiveConstraintErrors)},
      {"pkey_violations", status.pkey_violations},
      {"qkey_violations", status.qkey_violations}};
  if (const auto peer = view.fabric.peer_of(end)) port["peer"] = view.names.name_of(*peer);
  return port;
}

Json drop_json(const FabricView& view, const fabric::DropRecord& drop) {
  Json json{{"seconds", std::chrono::duration<double>(drop.at.since_start()).count()},
            {"port", view.names.name_of(drop.port)},
            {"reason", name_of(drop.reason)},
            {"packet", name_of(drop.kind)},
            {"source_lid", static_cast<unsigned>(drop.source)},
            {"destination_lid", static_cast<unsigned>(drop.destination)},
            {"destination_qp", static_cast<unsigned>(drop.dest_qp)}};
  if (drop.kind == fabric::PacketKind::kData) return json;
  json["class"] = static_cast<unsigned>(drop.mgmt_class);
  json["attribute"] = drop.attribute_id;
  return json;
}

}  // namespace

Json json_of(const FabricSummary& summary) {
  return {{"hosts", summary.hosts},
          {"switches", summary.switches},
          {"links", summary.links},
          {"ports", summary.ports.cabled},
          {"ports_linked", summary.ports.linked},
          {"ports_active", summary.ports.active},
          {"subnet_managers", summary.managers},
          {"drops", summary.drops}};
}

Json nodes_json(const FabricView& view) {
  Json list = Json::array();
  const auto& nodes = view.fabric.topology().nodes;
  for (std::uint32_t node = 0; node < nodes.size(); ++node) {
    const fabric::TopologyNode& about = nodes[node];
    const PortEnd end{node, management_port_of(about)};
    list.push_back({{"name", view.names.name_of(node)},
                    {"kind", name_of(about.kind)},
                    {"id", about.id},
                    {"description", view.fabric.description(node)},
                    {"guid", text_of(about.node_guid)},
                    {"ports", about.port_count},
                    {"lid", static_cast<unsigned>(view.fabric.port_status(end).lid)},
                    {"address", nullptr},
                    {"has_power", view.fabric.has_power(node)}});
    const std::uint32_t address = view.addresses.address_of(node);
    if (address != 0) list.back()["address"] = fabric::address_text(address);
  }
  return list;
}

Json links_json(const FabricView& view) {
  Json list = Json::array();
  for (const fabric::TopologyLink& link : view.fabric.topology().links) {
    const fabric::PortStatus status = view.fabric.port_status(link.a);
    list.push_back({{"a", view.names.name_of(link.a)},
                    {"b", view.names.name_of(link.b)},
                    {"rate", fabric::text_of(status.rate)},
                    {"state", name_of(status.state)},
                    {"has_cable", view.fabric.has_cable(link.a)}});
  }
  return list;
}

Json ports_json(const FabricView& view, std::optional<std::uint32_t> only) {
  Json list = Json::array();
  const auto& nodes = view.fabric.topology().nodes;
  for (std::uint32_t node = only.value_or(0); node < nodes.size(); ++node) {
    for (unsigned port = management_port_of(nodes[node]); port <= nodes[node].port_count; ++port) {
      list.push_back(port_json(view, {node, static_cast<std::uint8_t>(port)}));
    }
    if (only) break;
  }
  return list;
}

Json drops_json(const FabricView& view) {
  Json counts = Json::object();
  for (std::size_t at = 0; at < fabric::kDropReasonCount; ++at) {
    const auto reason = static_cast<fabric::DropReason>(at);
    counts[name_of(reason)] = view.fabric.drop_count(reason);
  }
  Json recent = Json::array();
  for (const fabric::DropRecord& drop : view.fabric.recent_drops()) {
    recent.push_back(drop_json(view, drop));
  }
  return {{"counts", counts}, {"recent", recent}};
}

Json route_json(const FabricView& view, const FabricRoute& route) {
  Json steps = Json::array();
  for (const RouteStep& step : route.steps) {
    steps.push_back({{"from", view.names.name_of(step.from)}, {"to", view.names.name_of(step.to)}});
  }
  return {{"source_lid", static_cast<unsigned>(route.source)},
          {"destination_lid", static_cast<unsigned>(route.destination)},
          {"arrives", route.obstacle.empty()},
          {"obstacle", route.obstacle},
          {"steps", steps}};
}

}  // namespace verbatim::tools
