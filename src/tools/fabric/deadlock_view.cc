// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/deadlock_view.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "fabric/routing/set_up_subnet.h"
#include "fabric/routing/wiring.h"
#include "tools/fabric/fabric_names.h"
#include "tools/text.h"

namespace verbatim::tools {
namespace {

using fabric::LaneEnd;
using fabric::PortEnd;

/// Loops that are shown; the others are counted.
constexpr std::size_t kShownMax = 4;

unsigned lid_of(const FabricView& view, PortEnd end) {
  const auto& node = view.fabric.topology().nodes[end.node];
  const std::uint8_t port = node.kind == fabric::NodeKind::kSwitch ? std::uint8_t{0} : end.port;
  return static_cast<unsigned>(view.fabric.port_status({end.node, port}).lid);
}

double seconds_of(Instant instant) {
  return std::chrono::duration<double>(instant.since_start()).count();
}

std::string counted(std::size_t count, const char* one, const char* several) {
  return std::to_string(count) + " " + (count == 1 ? one : several);
}

}  // namespace

std::string seconds_text(Instant instant) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9f s", seconds_of(instant));
  return text.data();
}

DeadlockReport deadlocks_of(const FabricView& view) {
  const auto waits = view.fabric.waiting_lanes();
  DeadlockReport report{.deadlocks = fabric::find_deadlocks(waits)};
  report.waiting_lanes = static_cast<std::size_t>(std::ranges::count_if(
      waits, [](const fabric::LaneWait& wait) { return wait.buffer.has_value(); }));
  report.possible = fabric::find_credit_loops(fabric::Wiring(view.fabric.topology()),
                                              fabric::plan_of(view.fabric), wire::ServiceLevel{});
  return report;
}

std::string cycle_text(const FabricView& view, const fabric::LaneCycle& cycle) {
  std::string text;
  for (const LaneEnd& each : cycle) {
    const auto peer = view.fabric.peer_of(each.port);
    text += "  " + printable(view.names.name_of(each.port)) + " -> " +
            (peer ? printable(view.names.name_of(*peer)) : "-") + "  lane " +
            std::to_string(static_cast<unsigned>(each.lane)) + ", LID " +
            std::to_string(lid_of(view, each.port)) + " -> " +
            (peer ? std::to_string(lid_of(view, *peer)) : "-") + "\n";
  }
  return text;
}

Json cycle_json(const FabricView& view, const fabric::LaneCycle& cycle) {
  Json lanes = Json::array();
  for (const LaneEnd& each : cycle) {
    Json lane{{"node", view.names.name_of(each.port.node)},
              {"port", each.port.port},
              {"lid", lid_of(view, each.port)},
              {"lane", static_cast<unsigned>(each.lane)},
              {"peer_node", nullptr},
              {"peer_port", nullptr},
              {"peer_lid", nullptr}};
    if (const auto peer = view.fabric.peer_of(each.port)) {
      lane["peer_node"] = view.names.name_of(peer->node);
      lane["peer_port"] = peer->port;
      lane["peer_lid"] = lid_of(view, *peer);
    }
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

Json cycles_json(const FabricView& view, const std::vector<fabric::LaneCycle>& cycles) {
  Json all = Json::array();
  for (const auto& cycle : cycles) all.push_back(cycle_json(view, cycle));
  return all;
}

std::string deadlock_text(const FabricView& view, const DeadlockReport& report) {
  std::string text;
  for (const fabric::Deadlock& each : report.deadlocks) {
    text += "deadlock since " + seconds_text(each.since) + ": each lane waits for the next one\n" +
            cycle_text(view, each.cycle);
  }
  if (!report.deadlocks.empty()) {
    const fabric::Deadlock& first = report.deadlocks.front();
    text += counted(first.lanes, "lane", "lanes") + " with " +
            counted(first.packets, "packet", "packets") +
            " cannot go on before packets are discarded for their age\n";
    return text;
  }
  text =
      "no deadlock; " + counted(report.waiting_lanes, "lane waits", "lanes wait") + " for room\n";
  const auto& loops = report.possible.loops;
  if (loops.empty()) return text + "the forwarding tables have no credit loop\n";
  text += "the forwarding tables make one possible, on service level 0:\n";
  for (std::size_t at = 0; at < std::min(loops.size(), kShownMax); ++at) {
    text += "credit loop " + std::to_string(at + 1) + " of " + std::to_string(loops.size()) + "\n" +
            cycle_text(view, loops[at]);
  }
  return text;
}

Json deadlock_json(const FabricView& view, const DeadlockReport& report) {
  Json deadlocks = Json::array();
  for (const fabric::Deadlock& each : report.deadlocks) {
    deadlocks.push_back({{"since_seconds", seconds_of(each.since)},
                         {"cycle", cycle_json(view, each.cycle)},
                         {"stuck_lanes", each.lanes},
                         {"stuck_packets", each.packets}});
  }
  return {{"deadlocks", std::move(deadlocks)},
          {"waiting_lanes", report.waiting_lanes},
          {"credit_loops", cycles_json(view, report.possible.loops)}};
}

}  // namespace verbatim::tools
