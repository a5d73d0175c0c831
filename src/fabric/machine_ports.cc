// SPDX-License-Identifier: Apache-2.0
#include "fabric/machine.h"
#include "wire/management/trap_details.h"

namespace verbatim::fabric {
namespace {

using wire::PortCounter;

/// What a packet may have besides its payload, of at most an MTU: headers and CRCs (IBA
/// Vol 1, 7.7.8).
constexpr std::uint32_t kOverheadOctets = 126;

/// A packet that a port does not send.
struct Discard {
  DropReason reason{};
  PortCounter detail{};  // of PortXmitDiscards
};

bool is_too_long(const wire::PortInfo& info, const PacketHeader& packet) noexcept {
  return std::uint32_t{packet.words} * 4 >
         wire::octets_of(wire::PathMtu{info.neighbor_mtu}) + kOverheadOctets;
}

std::optional<Discard> discard_of(const Port& from, const PacketHeader& packet,
                                  bool is_too_far) noexcept {
  if (!from.passes_subnet_management()) {
    return Discard{DropReason::kPortDown, PortCounter::kInactiveDiscards};
  }
  if (!packet.is_subnet_management() && !from.is_active()) {
    return Discard{DropReason::kPortNotActive, PortCounter::kInactiveDiscards};
  }
  if (is_too_long(from.info, packet)) {
    return Discard{DropReason::kTooLong, PortCounter::kNeighborMtuDiscards};
  }
  if (is_too_far) return Discard{DropReason::kHopLimit, PortCounter::kLifetimeDiscards};
  return std::nullopt;
}

}  // namespace

/// To be called whenever something about the port or its link has changed.
void Fabric::Machine::refresh_digest(PortEnd end) noexcept {
  Node& node = places_[end.node].node;
  Port& from = node.port(end.port);
  const LinkIndex at = link_of(end);
  const Jack& here = jacks_[at];
  const bool is_plain = places_[end.node].has_power && from.is_active() && !here.is_tapped;
  const bool is_other_end_faulty = here.rate && jack(here.peer).faults;
  digests_[at] = {
      .port = &from,
      .node = end.node,
      .words_max = static_cast<std::uint16_t>(
          (wire::octets_of(wire::PathMtu{from.info.neighbor_mtu}) + kOverheadOctets) / 4),
      .number = end.port,
      .is_switch = node.is_switch(),
      .sends =
          is_plain && !from.info.enforces_pkey_outbound && here.loss_per_mille == 0 && !here.faults,
      .takes = is_plain && !from.info.enforces_pkey_inbound && !is_other_end_faulty};
}

namespace {

/// Subnet management is in no partition. Limited members may send to full ones, and the ends decide
/// between members, so for a switch the number of the partition counts: OpenSM writes the limited
/// key of an adapter to the port of the switch, too.
bool is_strange(const Port& port, const PacketHeader& packet) noexcept {
  return !packet.is_subnet_management() && !port.names_partition(packet.pkey);
}

}  // namespace

/// A packet that has passed `hops` links is to leave its node through a port.
std::optional<DropReason> Fabric::Machine::refuse_to_send(Instant now, PortEnd out,
                                                          const PacketHeader& packet,
                                                          std::uint8_t hops) {
  Port& from = port(out);
  if (const auto discard = discard_of(from, packet, hops >= kHopsMax)) {
    from.counts.add(PortCounter::kTransmitDiscards);
    from.counts.add(discard->detail);
    return discard->reason;
  }
  if (from.info.enforces_pkey_outbound && is_strange(from, packet) &&
      keeps_out(now, out, packet, PortCounter::kTransmitConstraintErrors)) {
    return DropReason::kBadPKey;
  }
  return std::nullopt;
}

/// It leaves. Returns what the link does to it.
Expected<Crossing, DropReason> Fabric::Machine::leave(Instant now, LinkIndex at,
                                                      const OnLink& on_link, std::uint8_t hops) {
  const PacketHeader& packet = on_link.packet;
  const PortEnd out = ends_[at];
  digests_[at].port->counts.add_sent(packet.is_multicast(), packet.words);
  if (jacks_[at].is_tapped) [[unlikely]]
    tap(now, out, TappedPacket::Direction::kOut, on_link);
  if (is_lost(out, packet, hops)) return DropReason::kLossOnPurpose;
  return jacks_[at].faults ? cross_faulty(now, out, packet) : Crossing{};
}

/// The lane on which a packet leaves (7.6.6). A switch chooses it by the ports in and out, an
/// adapter by the port out.
std::uint8_t Fabric::Machine::lane_for(std::uint8_t ingress, LinkIndex at,
                                       const PacketHeader& packet) {
  if (packet.is_subnet_management()) return LinkLayer::kManagement;
  const PortDigest& digest = digests_[at];
  Node& node = places_[digest.node].node;
  const std::uint8_t lane = lane_of(node.lane_map(ingress, digest.number), packet.level);
  if (lane < LinkLayer::kDataLanes && links_.has_lane(at, lane)) return lane;
  if (digest.is_switch) {
    PortCounts& counts = node.port(ingress).counts;
    counts.add(PortCounter::kSwitchRelayErrors);
    counts.add(PortCounter::kLaneMappingErrors);
  } else {
    digest.port->counts.add(PortCounter::kTransmitDiscards);
  }
  return kNoLaneFor;
}

/// A packet comes from a link into a node. The first one that is not of subnet management makes an
/// Armed port Active (7.2.7).
std::optional<DropReason> Fabric::Machine::enter(Instant now, PortEnd at, const OnLink& on_link) {
  const PacketHeader& packet = on_link.packet;
  if (!places_[at.node].has_power) return DropReason::kNodeOff;
  Port& here = port(at);
  if (!here.passes_subnet_management()) return DropReason::kPortDown;
  if (on_link.is_damaged) return take_damaged(now, at, on_link);
  if (!packet.is_subnet_management() && here.info.state == wire::PortState::kArmed) {
    here.info.state = wire::PortState::kActive;
    list_change(at);
    refresh_lanes(now, at);
  }
  if (!packet.is_subnet_management() && !here.is_active()) return DropReason::kPortNotActive;
  here.counts.add_received(packet.is_multicast(), packet.words);
  if (jack(at).is_tapped) [[unlikely]]
    tap(now, at, TappedPacket::Direction::kIn, on_link);
  if (here.info.enforces_pkey_inbound && is_strange(here, packet) &&
      keeps_out(now, at, packet, PortCounter::kReceiveConstraintErrors)) {
    return DropReason::kBadPKey;
  }
  return std::nullopt;
}

/// The port through which a switch forwards a packet to a unicast LID, by its table (18.2.4.3); 0:
/// the packet is for the switch. `ingress` is port 0 for a packet of the switch itself.
Expected<std::uint8_t, DropReason> Fabric::Machine::way_out(PortEnd ingress,
                                                            wire::Lid destination) {
  const auto out = places_[ingress.node].node.route_of(destination);
  if (out && (*out == 0 || *out != ingress.port)) return *out;
  PortCounts& counts = port(ingress).counts;
  counts.add(PortCounter::kSwitchRelayErrors);
  counts.add(out ? PortCounter::kLoopingErrors : PortCounter::kDestinationErrors);
  return out ? DropReason::kLooping : DropReason::kNoRoute;
}

/// The ports through which a switch forwards a packet to a multicast LID. None are left if the
/// group is at the ingress only.
Expected<PortSet, DropReason> Fabric::Machine::ways_out(PortEnd ingress, wire::Lid group) {
  PortSet ports = places_[ingress.node].node.ports_of(group, ingress.port);
  if (ports.empty()) {
    PortCounts& counts = port(ingress).counts;
    counts.add(PortCounter::kSwitchRelayErrors);
    counts.add(PortCounter::kDestinationErrors);
    return DropReason::kNoRoute;
  }
  ports.remove(ingress.port);
  return ports;
}

/// A switch port keeps a packet of a partition that it does not have out of its link, or out of the
/// switch (14.2.5.6, 18.2.4.2.1). Adapters check the partition of each queue pair instead.
bool Fabric::Machine::keeps_out(Instant now, PortEnd end, const PacketHeader& packet,
                                wire::PortCounter errors) {
  Node& node = places_[end.node].node;
  if (!node.is_external(end.port)) return false;
  node.port(end.port).counts.add(errors);
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
  return true;
}

/// Loss that the user asked for: of one link, or of management datagrams once on their whole way.
/// The other end notices a packet with errors, or on lane 15 none.
bool Fabric::Machine::is_lost(PortEnd out, const PacketHeader& packet, std::uint8_t hops) {
  if (options_.loss_per_mille == 0 && jack(out).loss_per_mille == 0) return false;
  const bool begins = hops == 0 && packet.kind != PacketKind::kData;
  const std::uint32_t whole_way = begins ? options_.loss_per_mille : 0;
  const std::uint32_t this_link = jack(out).loss_per_mille;
  const bool is_lost = (whole_way != 0 && prng_.per_mille(whole_way)) ||
                       (this_link != 0 && prng_.per_mille(this_link));
  if (is_lost) count_lost(out, packet);
  return is_lost;
}

void Fabric::Machine::count_lost(PortEnd out, const PacketHeader& packet) {
  port(jack(out).peer)
      .counts.add(packet.is_subnet_management() ? PortCounter::kLane15Dropped
                                                : PortCounter::kReceiveErrors);
}

}  // namespace verbatim::fabric
