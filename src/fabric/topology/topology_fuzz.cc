// SPDX-License-Identifier: Apache-2.0
// Any text as a topology: it is either refused, with a line inside of the text and a message of one
// printable line, or it is complete. What is written of a complete one is read as the same again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "base/assert.h"
#include "fabric/topology/node_names.h"
#include "fabric/topology/read_topology.h"
#include "fabric/topology/write_topology.h"

namespace {

using namespace verbatim::fabric;

void check(const Topology& topology) {
  std::set<std::string> ids;
  std::set<verbatim::wire::Guid> guids;
  std::set<std::pair<std::uint32_t, std::uint8_t>> ends;
  for (const TopologyNode& node : topology.nodes) {
    const bool is_switch = node.kind == NodeKind::kSwitch;
    VB_ASSERT(!node.id.empty() && ids.insert(node.id).second);
    VB_ASSERT(node.port_count >= 1 && node.port_count <= Topology::kPortsMax);
    VB_ASSERT(node.description.size() <= Topology::kDescriptionMax);
    VB_ASSERT(node.port_guids.size() == (is_switch ? 1U : node.port_count));
    for (const auto guid : node.port_guids) {
      VB_ASSERT(guid != verbatim::wire::Guid{} && guids.insert(guid).second);
    }
  }
  for (const TopologyLink& link : topology.links) {
    for (const PortEnd end : {link.a, link.b}) {
      VB_ASSERT(end.node < topology.nodes.size());
      VB_ASSERT(end.port >= 1 && end.port <= topology.nodes[end.node].port_count);
      VB_ASSERT(ends.insert({end.node, end.port}).second);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text;
  std::for_each(data, data + size, [&](std::uint8_t octet) { text += static_cast<char>(octet); });
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  TopologyError error;
  const auto topology = read_topology(text, error);
  if (!topology.ok()) {
    VB_ASSERT(error.line <= lines && !error.message.empty() && error.message.size() < 400);
    VB_ASSERT(std::all_of(error.message.begin(), error.message.end(),
                          [](char c) { return c >= ' ' && c <= '~'; }));
    return 0;
  }
  check(*topology);
  const NodeNames names(*topology);
  std::string message;
  (void)names.find_port(std::string_view(text).substr(0, 40), message);
  const auto again = read_topology(write_topology(*topology), error);
  VB_ASSERT(again.ok() && again->nodes.size() == topology->nodes.size());
  VB_ASSERT(again->links.size() == topology->links.size());
  return 0;
}
