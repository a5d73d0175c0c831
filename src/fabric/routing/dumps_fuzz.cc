// SPDX-License-Identifier: Apache-2.0
// Any text as a dump of forwarding tables and of lanes: it is either refused, with a line inside of
// the text and a message of one printable line, or all ports, LIDs and lanes in it are some of the
// topology. Then the fabric takes it, and the search for loops ends.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/assert.h"
#include "fabric/routing/credit_loops.h"
#include "fabric/routing/read_forwarding_dump.h"
#include "fabric/routing/read_lane_dump.h"
#include "fabric/routing/set_up_subnet.h"
#include "fabric/topology/generate.h"

namespace {

using namespace verbatim::fabric;

const Topology& ring() {
  static const Topology topology = [] {
    std::string message;
    auto made = ring_topology("3", LinkRate{}, message);
    return std::move(made).value();
  }();
  return topology;
}

void check_refusal(const TopologyError& error, const std::string& text) {
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  VB_ASSERT(error.line <= lines && !error.message.empty() && error.message.size() < 400);
  VB_ASSERT(std::all_of(error.message.begin(), error.message.end(),
                        [](char c) { return c >= ' ' && c <= '~'; }));
}

void check(const SubnetPlan& plan) {
  VB_ASSERT(plan.tables.size() == ring().nodes.size() && plan.lids.size() == ring().nodes.size());
  for (std::size_t node = 0; node < plan.tables.size(); ++node) {
    VB_ASSERT(plan.tables[node].size() <= SubnetPlan::kLastLid + 1);
    for (const std::uint8_t port : plan.tables[node]) {
      VB_ASSERT(port == ForwardingTables::kNoPort || port <= ring().nodes[node].port_count);
    }
  }
  for (const PlannedLanes& lanes : plan.lanes) {
    const std::uint8_t ports = ring().nodes[lanes.out.node].port_count;
    VB_ASSERT(lanes.out.port <= ports && lanes.in <= ports);
  }
  (void)find_credit_loops(Wiring(ring()), plan, verbatim::wire::ServiceLevel{});
  Fabric fabric(ring());
  std::string message;
  VB_ASSERT(set_up_subnet(fabric, verbatim::Instant{}, plan, {}, message));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text;
  std::for_each(data, data + size, [&](std::uint8_t octet) { text += static_cast<char>(octet); });
  TopologyError error;
  auto plan = read_forwarding_dump(text, ring(), error);
  if (plan.ok()) {
    check(*plan);
  } else {
    check_refusal(error, text);
  }
  auto lanes = read_lane_dump(text, ring(), error);
  if (!lanes.ok()) {
    check_refusal(error, text);
    return 0;
  }
  SubnetPlan with_lanes(ring());
  with_lanes.lanes = std::move(*lanes);
  check(with_lanes);
  return 0;
}
