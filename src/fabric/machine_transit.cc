// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>

#include "fabric/machine.h"

namespace verbatim::fabric {
namespace {

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
  if (!flight.has_passed_link) {
    return places_[at.node].has_power ? deliver(now, at, packet)
                                      : drop(now, at, DropReason::kNodeOff, packet);
  }
  Hold hold = flight.hold;
  if (!take_room(now, flight, hold)) return;
  const PacketHeader header = packet.header();
  if (const auto reason =
          enter(now, at, {.packet = header, .lane = hold.lane, .is_damaged = flight.is_damaged})) {
    drop(now, at, *reason, packet);
  } else {
    const Transit transit{.packet = packet, .hops = flight.hops, .ingress = at.port, .hold = &hold};
    is_directed(packet) ? arrive_directed(now, at, transit) : arrive_by_lid(now, at, transit);
  }
  links_.release(hold);
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

/// `ingress` is port 0 for a packet of the switch itself.
void Fabric::Machine::relay(Instant now, PortEnd ingress, Transit transit) {
  const auto out = way_out(ingress, transit.packet.destination);
  if (!out) return drop(now, ingress, out.error(), transit.packet);
  if (*out != 0) return transmit(now, {.node = ingress.node, .port = *out}, transit);
  ingress.port == 0 ? loop_back(now, ingress, transit.packet)
                    : deliver(now, ingress, transit.packet);
}

void Fabric::Machine::transmit(Instant now, PortEnd out, Transit transit) {
  const PacketHeader header = transit.packet.header();
  if (const auto reason = refuse_to_send(now, out, header, transit.hops)) {
    return drop(now, out, *reason, transit.packet);
  }
  const LinkIndex at = link_of(out);
  const std::uint8_t lane = lane_for(transit.ingress, at, header);
  if (lane == kNoLaneFor) return drop(now, out, DropReason::kNoLane, transit.packet);
  if (!links_.can_send(now, at, lane, header.words)) return wait_datagram(now, at, lane, transit);
  links_.send(now, at, lane, header.words);
  send_datagram(now, at, lane, transit.packet, transit.hops);
}

void Fabric::Machine::loop_back(Instant now, PortEnd at, const ManagementPacket& packet) {
  fly(now, {.to = at, .packet = packet}, Duration(0));
}

/// In hardware the buffers of links are the limit, and subnet management discards what finds none.
void Fabric::Machine::fly(Instant now, const Flight& flight, Duration delay) {
  if (flights_.size() + late_flights_.size() >= kFlightsMax) {
    links_.release(flight.hold);
    return drop(now, flight.to, DropReason::kCongestion, flight.packet);
  }
  Flight leaving = flight;
  leaving.due = now + options_.hop_delay + delay;
  delay == Duration(0) ? flights_.push(leaving) : late_flights_.add(leaving);
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
