// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>

#include "fabric/machine.h"
#include "wire/management/trap_details.h"

namespace verbatim::fabric {
namespace {

using wire::PortCounter;

/// From the LRH to the ICRC: LRH 8, BTH 12, DETH 8, the datagram 256, ICRC 4, in words of four
/// octets.
constexpr std::uint64_t kPacketWords = 72;
constexpr std::uint64_t kGlobalRouteWords = 10;
/// More links than any route of a subnet has. In hardware SwitchLifeTime ends such a packet.
constexpr std::uint8_t kHopsMax = 64;

std::uint64_t words_of(const ManagementPacket& packet) noexcept {
  return kPacketWords + (packet.global_route ? kGlobalRouteWords : 0);
}

bool is_directed(const ManagementPacket& packet) noexcept {
  return packet.is_subnet_management() &&
         packet.mad[1] ==
             std::byte{static_cast<std::uint8_t>(wire::MgmtClass::kSubnetDirectedRoute)};
}

}  // namespace

/// A node sends a packet: a program of it, or one of its agents. `from` is a port that has agents.
void Fabric::Machine::originate(Instant now, PortEnd from, Transit transit) {
  const Place& place = places_[from.node];
  ManagementPacket& packet = transit.packet;
  if (!place.has_power) return drop(now, from, DropReason::kNodeOff, packet);
  if (is_directed(packet) && packet.destination == wire::Lid::kPermissive) {
    const DirectedRoutePlace here{.is_switch = place.node.is_switch()};
    return follow(now, from, next_directed_hop(packet.mad, here), transit);
  }
  if (place.node.is_switch()) return relay(now, from, transit);
  if (!port(from).has_lid(packet.destination)) return transmit(now, from, transit);
  if (!packet.is_subnet_management() && !port(from).is_active()) {
    return drop(now, from, DropReason::kPortNotActive, packet);
  }
  loop_back(now, from, packet);
}

void Fabric::Machine::arrive(Instant now, const Flight& flight) {
  ManagementPacket packet = flight.packet;
  const PortEnd at = flight.to;
  if (!places_[at.node].has_power) return drop(now, at, DropReason::kNodeOff, packet);
  if (!flight.has_passed_link) return deliver(now, at, packet);
  Port& here = port(at);
  if (!here.passes_subnet_management()) return drop(now, at, DropReason::kPortDown, packet);
  if (!packet.is_subnet_management() && here.info.state == wire::PortState::kArmed) {
    here.info.state = wire::PortState::kActive;  // IBA Vol 1, 7.2.7
    list_change(at);
  }
  if (!packet.is_subnet_management() && !here.is_active()) {
    return drop(now, at, DropReason::kPortNotActive, packet);
  }
  here.counts.add(PortCounter::kReceivePackets);
  here.counts.add(PortCounter::kUnicastReceivePackets);
  here.counts.add(PortCounter::kReceiveWords, words_of(packet));
  if (!passes_partition(now, at, false, packet)) return;
  const Transit transit{.packet = packet, .hops = flight.hops};
  is_directed(packet) ? arrive_directed(now, at, transit) : arrive_by_lid(now, at, transit);
}

/// A directed route can begin after a part by LID, and end before one (14.2.2): there the packet
/// has the LID of this node.
void Fabric::Machine::arrive_directed(Instant now, PortEnd at, Transit transit) {
  const Node& node = places_[at.node].node;
  DirectedRoutePlace here{.is_switch = node.is_switch(), .ingress = at.port};
  if (transit.packet.destination != wire::Lid::kPermissive) {
    if (!port(management_end(at)).has_lid(transit.packet.destination)) {
      return arrive_by_lid(now, at, transit);
    }
    here.ingress.reset();
  }
  follow(now, at, next_directed_hop(transit.packet.mad, here), transit);
}

void Fabric::Machine::follow(Instant now, PortEnd at, const DirectedHop& hop, Transit transit) {
  const Node& node = places_[at.node].node;
  switch (hop.kind) {
    case DirectedHop::Kind::kLeave:
      // Programs and agents of an adapter send through their own port.
      if (hop.port == 0 || hop.port > node.port_count() ||
          (!node.is_switch() && hop.port != at.port)) {
        return drop(now, at, DropReason::kNoSuchPort, transit.packet);
      }
      transit.packet.source = transit.packet.destination = wire::Lid::kPermissive;
      return transmit(now, {.node = at.node, .port = hop.port}, transit);
    case DirectedHop::Kind::kArrived:
      return transit.hops == 0 ? loop_back(now, at, transit.packet)
                               : deliver(now, at, transit.packet);
    case DirectedHop::Kind::kByLid:
      transit.packet.source = node.port(0).info.lid;
      transit.packet.destination = hop.lid;
      // A new start: it may well leave through the port at which it arrived.
      return relay(now, management_end(at), transit);
    case DirectedHop::Kind::kDiscard:
      return drop(now, at, DropReason::kMalformed, transit.packet);
  }
}

void Fabric::Machine::arrive_by_lid(Instant now, PortEnd at, Transit transit) {
  const wire::Lid to = transit.packet.destination;
  if (to == wire::Lid::kPermissive && transit.packet.is_subnet_management()) {
    return deliver(now, at, transit.packet);
  }
  if (places_[at.node].node.is_switch()) return relay(now, at, transit);
  if (port(at).has_lid(to)) return deliver(now, at, transit.packet);
  drop(now, at, DropReason::kNotForThisPort, transit.packet);
}

/// A switch forwards a packet by its table (18.2.4.3). `ingress` is port 0 for one of its own.
void Fabric::Machine::relay(Instant now, PortEnd ingress, Transit transit) {
  PortCounts& counts = port(ingress).counts;
  const auto out = places_[ingress.node].node.route_of(transit.packet.destination);
  if (!out) {
    counts.add(PortCounter::kSwitchRelayErrors);
    counts.add(PortCounter::kDestinationErrors);
    return drop(now, ingress, DropReason::kNoRoute, transit.packet);
  }
  if (*out == 0) {
    return ingress.port == 0 ? loop_back(now, ingress, transit.packet)
                             : deliver(now, ingress, transit.packet);
  }
  if (*out == ingress.port) {
    counts.add(PortCounter::kSwitchRelayErrors);
    counts.add(PortCounter::kLoopingErrors);
    return drop(now, ingress, DropReason::kLooping, transit.packet);
  }
  transmit(now, {.node = ingress.node, .port = *out}, transit);
}

void Fabric::Machine::transmit(Instant now, PortEnd out, Transit transit) {
  Port& from = port(out);
  ManagementPacket& packet = transit.packet;
  const bool is_up = from.passes_subnet_management();
  if (!is_up || (!packet.is_subnet_management() && !from.is_active())) {
    from.counts.add(PortCounter::kTransmitDiscards);
    from.counts.add(PortCounter::kInactiveDiscards);
    return drop(now, out, is_up ? DropReason::kPortNotActive : DropReason::kPortDown, packet);
  }
  if (transit.hops == kHopsMax) {
    from.counts.add(PortCounter::kTransmitDiscards);
    from.counts.add(PortCounter::kLifetimeDiscards);
    return drop(now, out, DropReason::kHopLimit, packet);
  }
  if (!passes_partition(now, out, true, packet)) return;
  from.counts.add(PortCounter::kTransmitPackets);
  from.counts.add(PortCounter::kUnicastTransmitPackets);
  from.counts.add(PortCounter::kTransmitWords, words_of(packet));
  if (is_lost(now, out, transit)) return;
  fly(now, {.to = jack(out).peer,
            .hops = static_cast<std::uint8_t>(transit.hops + 1),
            .has_passed_link = true,
            .packet = packet});
}

/// A switch port discards packets of partitions that it does not have, where it is told to
/// (14.2.5.6, 18.2.4.2.1).
bool Fabric::Machine::passes_partition(Instant now, PortEnd end, bool is_outbound,
                                       const ManagementPacket& packet) {
  Node& node = places_[end.node].node;
  if (!node.is_external(end.port) || packet.is_subnet_management()) return true;
  Port& here = node.port(end.port);
  const bool enforces =
      is_outbound ? here.info.enforces_pkey_outbound : here.info.enforces_pkey_inbound;
  if (!enforces || here.is_in_partition(packet.pkey)) return true;
  here.counts.add(is_outbound ? PortCounter::kTransmitConstraintErrors
                              : PortCounter::kReceiveConstraintErrors);
  drop(now, end, DropReason::kBadPKey, packet);
  const wire::BadPKeyAtSwitchPort bad{.source = packet.source,
                                      .destination = packet.destination,
                                      .pkey = packet.pkey,
                                      .level = packet.level,
                                      .source_qp = packet.source_qp,
                                      .dest_qp = packet.dest_qp,
                                      .switch_lid = node.port(0).info.lid,
                                      .port = end.port};
  node.raise_trap(now, 0,
                  {.type = wire::NoticeType::kSecurity,
                   .number = wire::TrapNumber::kBadPKeyAtSwitchPort,
                   .details = bad.details()},
                  end.port);
  arm_traps(end.node);
  return false;
}

/// Loss that the user asked for. The other end notices a packet with errors, or on lane 15 none.
bool Fabric::Machine::is_lost(Instant now, PortEnd out, const Transit& transit) {
  const std::uint32_t whole_way = transit.hops == 0 ? options_.loss_per_mille : 0;
  const std::uint32_t this_link = jack(out).loss_per_mille;
  const bool is_lost = (whole_way != 0 && prng_.per_mille(whole_way)) ||
                       (this_link != 0 && prng_.per_mille(this_link));
  if (!is_lost) return false;
  port(jack(out).peer)
      .counts.add(transit.packet.is_subnet_management() ? PortCounter::kLane15Dropped
                                                        : PortCounter::kReceiveErrors);
  drop(now, out, DropReason::kLossOnPurpose, transit.packet);
  return true;
}

void Fabric::Machine::loop_back(Instant now, PortEnd at, const ManagementPacket& packet) {
  fly(now, {.to = at, .packet = packet});
}

/// In hardware the buffers of links are the limit, and subnet management discards what finds none.
void Fabric::Machine::fly(Instant now, const Flight& flight) {
  if (flights_.size() >= kFlightsMax) {
    return drop(now, flight.to, DropReason::kCongestion, flight.packet);
  }
  Flight leaving = flight;
  leaving.due = now + options_.hop_delay;
  flights_.push(leaving);
}

bool Fabric::Machine::can_begin(PortEnd from, const UserMad& mad) const {
  if (mad.address.lid != wire::Lid::kPermissive) return true;
  ManagementPacket packet{.dest_qp = wire::QpNumber::kSmi};
  const std::span octets(mad.octets);
  std::ranges::copy(octets.first(std::min(octets.size(), packet.mad.size())), packet.mad.begin());
  if (!is_directed(packet)) return true;
  const Node& node = places_[from.node].node;
  const DirectedHop hop = next_directed_hop(packet.mad, {.is_switch = node.is_switch()});
  if (hop.kind == DirectedHop::Kind::kDiscard) return false;
  return hop.kind != DirectedHop::Kind::kLeave || node.is_switch() || hop.port == from.port;
}

}  // namespace verbatim::fabric
