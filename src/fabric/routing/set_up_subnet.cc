// SPDX-License-Identifier: Apache-2.0
#include "fabric/routing/set_up_subnet.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fabric/routing/wiring.h"
#include "fabric/topology/line_scanner.h"
#include "wire/management/port_info.h"
#include "wire/management/switch_info.h"

namespace verbatim::fabric {
namespace {

using wire::SmpAttribute;

constexpr std::size_t kBlock = ForwardingTables::kLinearBlock;

class Setup {
 public:
  Setup(Fabric& fabric, Instant now, const SubnetPlan& plan, const SubnetSettings& settings,
        std::string& message)
      : fabric_(fabric),
        now_(now),
        plan_(plan),
        settings_(settings),
        message_(message),
        wiring_(fabric.topology()) {}

  [[nodiscard]] bool run() {
    for (std::uint32_t node = 0; node < wiring_.node_count(); ++node) {
      if (wiring_.is_switch(node) && !set_switch(node)) return false;
    }
    return std::ranges::all_of(plan_.lanes, [&](const auto& each) { return set_lanes(each); }) &&
           set_ports(wire::PortState::kNoChange) && set_ports(wire::PortState::kArmed) &&
           set_ports(wire::PortState::kActive);
  }

 private:
  [[nodiscard]] bool set_switch(std::uint32_t node);
  [[nodiscard]] bool set_lanes(const PlannedLanes& planned);
  [[nodiscard]] bool set_ports(wire::PortState state);
  [[nodiscard]] bool set_port(PortEnd end, wire::PortState state);
  /// Reads an attribute, lets `change` work on its octets, and writes it. `at` is a port of the
  /// node through which it is managed.
  template <typename Attribute, typename Change>
  [[nodiscard]] bool change(PortEnd at, SmpAttribute attribute, std::uint32_t modifier,
                            Change&& change) {
    wire::Smp request{
        .route = wire::SmpRoute::kLid, .attribute = attribute, .attribute_modifier = modifier};
    const auto read = ask(at, request);
    if (!read) return false;
    Attribute value = Attribute::from(read->data);
    change(value);
    value.emit(request.data);
    return write(at, request);
  }
  [[nodiscard]] bool write(PortEnd at, wire::Smp request) {
    request.method = wire::MadMethod::kSet;
    return ask(at, request).has_value();
  }
  [[nodiscard]] std::optional<wire::Smp> ask(PortEnd at, const wire::Smp& request);

  Fabric& fabric_;
  const Instant now_;
  const SubnetPlan& plan_;
  const SubnetSettings& settings_;
  std::string& message_;
  const Wiring wiring_;
};

std::optional<wire::Smp> Setup::ask(PortEnd at, const wire::Smp& request) {
  auto answer = fabric_.administer(now_, at, request);
  if (answer && answer->status == wire::SmpStatus::kOk) return answer;
  message_ = in_quotes(fabric_.topology().nodes[at.node].id) + " port " + std::to_string(at.port) +
             " refuses attribute " + std::to_string(static_cast<unsigned>(request.attribute)) +
             " with modifier " + std::to_string(request.attribute_modifier);
  return std::nullopt;
}

bool Setup::set_switch(std::uint32_t node) {
  const PortEnd zero{.node = node};
  const auto& table = plan_.tables[node];
  for (std::size_t start = 0; start < table.size(); start += kBlock) {
    wire::Smp request{.route = wire::SmpRoute::kLid,
                      .attribute = SmpAttribute::kLinearForwardingTable,
                      .attribute_modifier = static_cast<std::uint32_t>(start / kBlock)};
    for (std::size_t i = 0; i < kBlock; ++i) {
      const std::size_t lid = start + i;
      request.data[i] = std::byte{lid < table.size() ? table[lid] : ForwardingTables::kNoPort};
    }
    if (!write(zero, request)) return false;
  }
  return change<wire::SwitchInfo>(zero, SmpAttribute::kSwitchInfo, 0, [&](wire::SwitchInfo& info) {
    info.linear_top = static_cast<std::uint16_t>(table.empty() ? 0 : table.size() - 1);
    info.life_time = settings_.switch_life;
    info.port_state_change = true;
  });
}

bool Setup::set_lanes(const PlannedLanes& planned) {
  const bool is_switch = wiring_.is_switch(planned.out.node);
  wire::Smp request{.route = wire::SmpRoute::kLid, .attribute = SmpAttribute::kSlToVlTable};
  if (is_switch) request.attribute_modifier = std::uint32_t{planned.in} << 8 | planned.out.port;
  std::ranges::copy(planned.lanes, request.data.begin());
  return write(is_switch ? PortEnd{.node = planned.out.node} : planned.out, request);
}

bool Setup::set_ports(wire::PortState state) {
  for (std::uint32_t at = 0; at < wiring_.port_count(); ++at) {
    const PortEnd end = wiring_.end_of(at);
    const bool has_lid = wiring_.is_switch(end.node) == (end.port == 0);
    const bool is_up =
        end.port != 0 && fabric_.port_status(end).state >= wire::PortState::kInitialize;
    const bool is_concerned = state == wire::PortState::kNoChange ? has_lid || is_up : is_up;
    if (!is_concerned || (end.port == 0 && !has_lid)) continue;
    if (!set_port(end, state)) return false;
  }
  return true;
}

bool Setup::set_port(PortEnd end, wire::PortState state) {
  const bool is_switch = wiring_.is_switch(end.node);
  const PortEnd managed = is_switch ? PortEnd{.node = end.node} : end;
  return change<wire::PortInfo>(
      managed, SmpAttribute::kPortInfo, wire::PortInfo::kExtendedSpeedsModifier | end.port,
      [&](wire::PortInfo& info) {
        info.state = state;
        info.physical_state = wire::PortPhysicalState::kNoChange;
        info.down_default = 0;
        if (!is_switch || end.port == 0) {
          const PortLids& lids = plan_.lids_of(end);
          info.lid = lids.base;
          info.lmc = lids.lmc;
        }
        if (!is_switch || end.port == 0) return;
        const auto& peer = wiring_.peer_of(end);
        const bool is_to_host = peer && !wiring_.is_switch(peer->node);
        info.queue_life = is_to_host ? settings_.queue_life_to_host : settings_.queue_life;
        info.vl_stall_count = settings_.stall_count;
      });
}

}  // namespace

Status set_up_subnet(Fabric& fabric, Instant now, const SubnetPlan& plan,
                     const SubnetSettings& settings, std::string& message) {
  if (Setup(fabric, now, plan, settings, message).run()) return Ok{};
  return Errc::kInvalidArgument;
}

SubnetPlan plan_of(const Fabric& fabric) {
  const Topology& topology = fabric.topology();
  SubnetPlan plan(topology);
  std::size_t last = 0;
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    const bool is_switch = topology.nodes[node].kind == NodeKind::kSwitch;
    const unsigned last_port = is_switch ? 0 : topology.nodes[node].port_count;
    for (unsigned port = is_switch ? 0 : 1; port <= last_port; ++port) {
      const PortEnd end{.node = node, .port = static_cast<std::uint8_t>(port)};
      const PortStatus status = fabric.port_status(end);
      plan.lids_of(end) = {.base = status.lid, .lmc = status.lmc};
      last =
          std::max(last, static_cast<std::size_t>(status.lid) + (std::size_t{1} << status.lmc) - 1);
    }
  }
  last = std::min(last, SubnetPlan::kLastLid);
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    if (topology.nodes[node].kind != NodeKind::kSwitch) continue;
    for (std::size_t at = 1; at <= last; ++at) {
      const auto lid = wire::Lid{static_cast<std::uint16_t>(at)};
      if (const auto port = fabric.route_of(node, lid)) plan.set_port(node, lid, *port);
    }
  }
  return plan;
}

}  // namespace verbatim::fabric
