// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fabric/node/node.h"
#include "fabric/node/subnet_agent.h"
#include "wire/headers/smp.h"

/// Helpers of the tests of nodes: nodes, and requests to their agents. Nothing but tests includes
/// this.
namespace verbatim::fabric::test {

inline Node host(std::uint8_t ports = 1) {
  TopologyNode node{.kind = NodeKind::kHost,
                    .port_count = ports,
                    .id = "h0",
                    .description = "h0 HCA-1",
                    .node_guid = wire::Guid{0x100},
                    .system_guid = wire::Guid{0x101}};
  for (std::uint8_t port = 1; port <= ports; ++port) {
    node.port_guids.push_back(wire::Guid{0x110U + port});
  }
  return {node, std::vector<LinkRate>(ports + std::size_t{1})};
}

inline Node switch_of(std::uint8_t ports) {
  const TopologyNode node{.kind = NodeKind::kSwitch,
                          .port_count = ports,
                          .id = "leaf0",
                          .description = "leaf0",
                          .node_guid = wire::Guid{0x200},
                          .system_guid = wire::Guid{0x201},
                          .port_guids = {wire::Guid{0x202}}};
  return {node, std::vector<LinkRate>(ports + std::size_t{1})};
}

/// A request with its answer.
struct Exchange {
  SmpOutcome outcome{};
  wire::Smp answer{};
};

inline Exchange ask(Node& node, const wire::Smp& request, SmpArrival arrival = {.ingress = 1},
                    Instant now = {}) {
  std::array<std::byte, wire::Smp::kSize> mad{};
  request.emit(mad);
  Exchange exchange;
  exchange.outcome = answer_smp(now, node, arrival, mad);
  exchange.answer = wire::SmpView::parse(*wire::MadView::parse(mad))->value();
  return exchange;
}

inline wire::Smp get(wire::SmpAttribute attribute, std::uint32_t modifier = 0) {
  return {.method = wire::MadMethod::kGet, .attribute = attribute, .attribute_modifier = modifier};
}

template <typename Attribute>
wire::Smp set(wire::SmpAttribute attribute, const Attribute& value, std::uint32_t modifier = 0) {
  wire::Smp smp{
      .method = wire::MadMethod::kSet, .attribute = attribute, .attribute_modifier = modifier};
  value.emit(smp.data);
  return smp;
}

}  // namespace verbatim::fabric::test
