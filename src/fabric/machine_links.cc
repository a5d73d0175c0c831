// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "fabric/machine.h"
#include "fabric/node/link_training.h"
#include "wire/management/trap_details.h"

namespace verbatim::fabric {
namespace {

using wire::PortCounter;
using wire::PortPhysicalState;
using wire::PortState;

struct ErrorKind {
  std::optional<PortCounter> counter{};
  std::optional<wire::TrapNumber> trap{};
};

ErrorKind kind_of(LinkError error) noexcept {
  switch (error) {
    case LinkError::kSymbol:
      return {.counter = PortCounter::kSymbolErrors};
    case LinkError::kRecovery:
      return {.counter = PortCounter::kLinkRecoveries};
    case LinkError::kLocalIntegrity:
      return {.counter = PortCounter::kLocalIntegrityErrors,
              .trap = wire::TrapNumber::kLocalLinkIntegrity};
    case LinkError::kBufferOverrun:
      return {.counter = PortCounter::kBufferOverruns, .trap = wire::TrapNumber::kBufferOverrun};
    case LinkError::kFlowControlWatchdog:
      return {.trap = wire::TrapNumber::kFlowControlWatchdog};
  }
  return {};
}

bool is_switched_off(const Port& port) noexcept {
  return port.info.physical_state == PortPhysicalState::kDisabled ||
         port.info.physical_state == PortPhysicalState::kSleep;
}

}  // namespace

bool Fabric::Machine::can_link(PortEnd end) const noexcept {
  const Jack& here = jack(end);
  return here.rate && here.is_plugged_in && places_[end.node].has_power &&
         !is_switched_off(port(end));
}

/// Trains the link of a port, if both its ends want it and it is not up already.
void Fabric::Machine::bring_up(Instant now, PortEnd end) {
  if (!jack(end).rate) return;
  const PortEnd peer = jack(end).peer;
  if (!can_link(end) || !can_link(peer) || port(end).passes_subnet_management()) return;
  if (!train(port(end).info, port(peer).info)) return;
  links_.begin(link_of(end));
  links_.begin(link_of(peer));
  change_link_state(now, end, PortState::kInitialize);
  change_link_state(now, peer, PortState::kInitialize);
}

void Fabric::Machine::take_down(Instant now, PortEnd end) {
  if (!jack(end).rate || !port(end).passes_subnet_management()) return;
  for (const PortEnd each : {end, jack(end).peer}) {
    port(each).counts.add(PortCounter::kLinkDowned);
    change_link_state(now, each, PortState::kDown);
  }
}

/// A switch tells its subnet manager that the link of one of its ports is another than before
/// (14.2.5.4, 14.2.5.1 trap 128).
void Fabric::Machine::change_link_state(Instant now, PortEnd end, PortState state) {
  Node& node = places_[end.node].node;
  wire::PortInfo& info = node.port(end.port).info;
  if (node.port(end.port).is_active()) ++node.port(end.port).outages;
  info.state = state;
  info.physical_state =
      state == PortState::kDown ? PortPhysicalState::kPolling : PortPhysicalState::kLinkUp;
  list_change(end);
  refresh_lanes(now, end);
  if (!node.is_switch()) return;
  node.switch_part().info.port_state_change = true;
  const wire::LinkStateChange change{.lid = node.port(0).info.lid};
  node.raise_trap(now, 0,
                  {.type = wire::NoticeType::kUrgent,
                   .number = wire::TrapNumber::kLinkStateChange,
                   .details = change.details()});
  arm_traps(end.node);
}

void Fabric::Machine::obey(Instant now, std::uint32_t node, const LinkOrder& order) {
  const PortEnd end{.node = node, .port = order.port};
  wire::PortInfo& info = port(end).info;
  switch (order.kind) {
    case LinkOrder::Kind::kDisable:
    case LinkOrder::Kind::kSleep:
      take_down(now, end);
      info.physical_state = order.kind == LinkOrder::Kind::kDisable ? PortPhysicalState::kDisabled
                                                                    : PortPhysicalState::kSleep;
      break;
    case LinkOrder::Kind::kRetrain:
      take_down(now, end);
      break;
    case LinkOrder::Kind::kPoll:
      if (is_switched_off(port(end))) info.physical_state = PortPhysicalState::kPolling;
      break;
  }
  list_change(end);
  bring_up(now, end);
}

bool Fabric::Machine::set_cable(Instant now, PortEnd end, bool plugged_in) {
  if (!jack(end).rate) return false;
  jack(end).is_plugged_in = jack(jack(end).peer).is_plugged_in = plugged_in;
  plugged_in ? bring_up(now, end) : take_down(now, end);
  return true;
}

bool Fabric::Machine::set_link_loss(PortEnd end, std::uint32_t per_mille) noexcept {
  if (!jack(end).rate) return false;
  jack(end).loss_per_mille = jack(jack(end).peer).loss_per_mille = per_mille;
  refresh_digest(end);
  refresh_digest(jack(end).peer);
  return true;
}

void Fabric::Machine::set_power(Instant now, std::uint32_t index, bool on) {
  Place& place = places_[index];
  if (place.has_power == on) return;
  const std::uint8_t ports = place.node.port_count();
  if (!on) {
    for (unsigned number = 1; number <= ports; ++number) {
      take_down(now, {.node = index, .port = static_cast<std::uint8_t>(number)});
    }
    place.has_power = false;
  } else {
    Node fresh = make_node(topology_.nodes[index], place.first_jack);
    fresh.set_description(place.node.description());
    for (unsigned number = 0; number <= ports; ++number) {
      const auto at = static_cast<std::uint8_t>(number);
      fresh.port(at).info.capability_mask |=
          place.node.port(at).info.capability_mask & wire::PortCapability::kIsSm;
      fresh.port(at).reregister_requests = place.node.port(at).reregister_requests;
      fresh.port(at).outages = place.node.port(at).outages;
    }
    place.node = std::move(fresh);
    place.has_power = true;
  }
  place.node.traps().clear();
  arm_traps(index);
  for (unsigned number = place.node.is_switch() ? 0 : 1; number <= ports; ++number) {
    const PortEnd end{.node = index, .port = static_cast<std::uint8_t>(number)};
    list_change(end);
    refresh_lanes(now, end);
    if (on) bring_up(now, end);
  }
}

void Fabric::Machine::report_link_error(Instant now, PortEnd end, LinkError error) {
  const ErrorKind kind = kind_of(error);
  if (kind.counter) port(end).counts.add(*kind.counter);
  if (!kind.trap) return;
  const PortEnd management = management_end(end);
  const wire::LinkErrorReport report{.lid = port(management).info.lid, .port = end.port};
  places_[end.node].node.raise_trap(
      now, management.port,
      {.type = wire::NoticeType::kUrgent, .number = *kind.trap, .details = report.details()},
      end.port);
  arm_traps(end.node);
}

std::optional<PortEnd> Fabric::Machine::peer_of(PortEnd end) const noexcept {
  if (!jack(end).rate) return std::nullopt;
  return jack(end).peer;
}

PortCensus Fabric::Machine::census() const noexcept {
  PortCensus census;
  for (const TopologyLink& link : topology_.links) {
    if (!jack(link.a).is_plugged_in || !places_[link.a.node].has_power ||
        !places_[link.b.node].has_power) {
      continue;
    }
    census.cabled += 2;
    for (const PortEnd end : {link.a, link.b}) {
      if (port(end).passes_subnet_management()) ++census.linked;
      if (port(end).is_active()) ++census.active;
    }
  }
  return census;
}

}  // namespace verbatim::fabric
