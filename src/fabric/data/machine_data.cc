// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/assert.h"
#include "fabric/lanes/path_rate.h"
#include "fabric/machine.h"
#include "fabric/node/link_training.h"
#include "wire/headers/native_packet.h"

namespace verbatim::fabric {

/// Without delays, a packet that need not wait has arrived everywhere before this returns.
void Fabric::Machine::post_data(Instant now, PortEnd from, const DataPacket& packet) {
  VB_ASSERT(!places_[from.node].node.is_switch());
  time_ = std::max(time_, now);
  const JourneyId journey = journeys_.begin(packet);
  if (packet.rate != 0 && is_paced(time_, from, packet, journey)) return;
  begin_data(time_, from, journey);
  settle(time_);
}

/// Whether the packet stays in its adapter because its path is slower than the link.
bool Fabric::Machine::is_paced(Instant now, PortEnd from, const DataPacket& packet,
                               JourneyId journey) {
  const std::uint32_t megabits = data_megabits_of_path(packet.rate);
  if (options_.slowdown == 0 || megabits == 0 ||
      megabits >= data_megabits_of(active_rate(port(from).info))) {
    return false;
  }
  const Pacer::Flow flow{
      .from = link_of(from), .to = packet.destination, .dest_qp = packet.dest_qp};
  return !pacer_.admit(now, flow, megabits, std::uint32_t{packet.words} * 4 + wire::kVcrcSize,
                       journey);
}

void Fabric::Machine::begin_data(Instant now, PortEnd from, JourneyId journey) {
  originate_data(now, from, journey);
  end_copy(journey);
}

std::optional<DataOutcome> Fabric::Machine::poll_data() {
  if (data_outcomes_.empty()) return std::nullopt;
  return data_outcomes_.pop();
}

void Fabric::Machine::report_bad_keys(Instant now, PortEnd end, const BadKeyReport& report) {
  VB_ASSERT(!places_[end.node].node.is_switch());
  if (report.count == 0 || !places_[end.node].has_power) return;
  const bool is_pkey = report.key == BadKeyReport::Key::kPKey;
  drops_.add({.at = now,
              .port = end,
              .reason = is_pkey ? DropReason::kBadPKey : DropReason::kBadQKey,
              .kind = PacketKind::kData,
              .source = report.last.source,
              .destination = report.last.destination,
              .dest_qp = report.last.dest_qp},
             report.count);
  count_bad_keys(now, end, report);
}

/// Why a packet does not begin its way; empty: it does.
std::optional<DropReason> Fabric::Machine::refusal_of(PortEnd from,
                                                      const PacketHeader& packet) const noexcept {
  const Port& here = port(from);
  if (!places_[from.node].has_power) return DropReason::kNodeOff;
  if (!here.has_lid(packet.source)) return DropReason::kWrongSource;
  if (packet.destination == wire::Lid::kReserved || packet.destination == wire::Lid::kPermissive) {
    return DropReason::kMalformed;
  }
  if (here.has_lid(packet.destination) && !here.is_active()) return DropReason::kPortNotActive;
  return std::nullopt;
}

/// A packet to the port itself stays in the adapter. A packet to a group also is for other queue
/// pairs of the port: no switch sends it back.
void Fabric::Machine::originate_data(Instant now, PortEnd from, JourneyId journey) {
  const PacketHeader& packet = journeys_.at(journey).header;
  const Port& here = port(from);
  if (const auto reason = refusal_of(from, packet)) return drop(now, from, *reason, packet);
  const bool is_own = here.has_lid(packet.destination);
  if (here.is_active() && (is_own || packet.is_multicast())) note_arrival(from, journey, {});
  if (is_own) return;
  DataTransit transit{.journey = journey};
  transmit_data(now, link_of(from), transit);
}

void Fabric::Machine::arrive_data(Instant now, const DataFlight& flight) {
  const PacketHeader& packet = journeys_.at(flight.journey).header;
  const PortDigest& digest = digests_[flight.to];
  const PortEnd at{.node = digest.node, .port = digest.number};
  DataTransit transit{.journey = flight.journey,
                      .hops = flight.hops,
                      .ingress = digest.number,
                      .hold = {.at = flight.to, .blocks = flight.blocks, .lane = flight.lane}};
  std::optional<DropReason> reason;
  if (digest.takes) {
    digest.port->counts.add_received(packet.is_multicast(), packet.words);
  } else {
    reason =
        enter(now, at, {.packet = packet, .lane = flight.lane, .is_damaged = flight.is_damaged});
  }
  if (reason) {
    drop(now, at, *reason, packet);
  } else if (digest.is_switch) {
    packet.is_multicast() ? spread_data(now, flight.to, transit)
                          : relay_data(now, flight.to, transit);
  } else if (packet.is_multicast() || digest.port->has_lid(packet.destination)) {
    note_arrival(at, flight.journey, transit.hold);
    transit.is_hold_kept = options_.holds_arrivals;
  } else {
    drop(now, at, DropReason::kNotForThisPort, packet);
  }
  if (!transit.is_hold_kept) links_.release(transit.hold);
  end_copy(flight.journey);
}

/// No program can use port 0 of a switch for its data.
void Fabric::Machine::relay_data(Instant now, LinkIndex at, DataTransit& transit) {
  const PacketHeader& packet = journeys_.at(transit.journey).header;
  const PortDigest& digest = digests_[at];
  const auto usual = places_[digest.node].node.route_of(packet.destination);
  if (usual && *usual != 0 && *usual != digest.number) {
    return transmit_data(now, link_beside(at, *usual), transit);
  }
  const auto out = way_out(ends_[at], packet.destination);
  drop(now, ends_[at], out ? DropReason::kUnclaimed : out.error(), packet);
}

/// All copies that have to wait share the room in the receive buffer.
void Fabric::Machine::spread_data(Instant now, LinkIndex at, DataTransit& transit) {
  const PacketHeader& packet = journeys_.at(transit.journey).header;
  auto ports = ways_out(ends_[at], packet.destination);
  if (!ports) return drop(now, ends_[at], ports.error(), packet);
  DataTransit copy = transit;
  copy.hold = links_.share(transit.hold);
  copy.shares_hold = true;
  while (const auto out = ports->take_first()) {
    if (*out == 0) {
      drop(now, ends_[at], DropReason::kUnclaimed, packet);
    } else {
      transmit_data(now, link_beside(at, *out), copy);
    }
  }
  links_.release_shared(copy.hold);
  transit.is_hold_kept = true;
}

/// The tables of a group are a tree, so its copies pass each link once at most. Those that go on
/// are in a loop, and would become ever more.
void Fabric::Machine::transmit_data(Instant now, LinkIndex at, DataTransit& transit) {
  Journey& journey = journeys_.at(transit.journey);
  const PacketHeader& packet = journey.header;
  const bool loops = packet.is_multicast() && journey.links >= topology_.links.size();
  const std::uint8_t hops = loops ? kHopsMax : transit.hops;
  const PortDigest& digest = digests_[at];
  if (!digest.sends || packet.words > digest.words_max || hops >= kHopsMax) {
    if (const auto reason = refuse_to_send(now, ends_[at], packet, hops)) {
      return drop(now, ends_[at], *reason, packet);
    }
  }
  std::uint8_t lane =
      lane_of(places_[digest.node].node.lane_map(transit.ingress, digest.number), packet.level);
  if (lane >= LinkLayer::kDataLanes || !links_.has_lane(at, lane)) {
    lane = lane_for(transit.ingress, at, packet);
  }
  if (lane == kNoLaneFor) return drop(now, ends_[at], DropReason::kNoLane, packet);
  ++journey.copies;
  ++journey.links;
  if (!links_.can_send(now, at, lane, packet.words)) return wait_data(now, at, lane, transit);
  links_.send(now, at, lane, packet.words);
  send_data(now, at, lane, transit);
}

/// A copy has left through a port, and is on the link.
void Fabric::Machine::send_data(Instant now, LinkIndex at, std::uint8_t lane,
                                const DataTransit& transit) {
  const PacketHeader& packet = journeys_.at(transit.journey).header;
  const PortDigest& digest = digests_[at];
  Crossing crossing;
  if (digest.sends) {
    digest.port->counts.add_sent(packet.is_multicast(), packet.words);
  } else {
    const auto left = leave(now, at, {.packet = packet, .lane = lane}, transit.hops);
    if (!left) {
      links_.lose(at, lane);
      drop(now, ends_[at], left.error(), packet);
      return end_copy(transit.journey);
    }
    crossing = *left;
  }
  links_.receive(at, lane, packet.words);
  const bool is_late = crossing.delay != Duration(0);
  DataFlight late;
  DataFlight& flight = is_late ? late : data_flights_.add();
  flight.due = now + options_.hop_delay + crossing.delay;
  flight.to = links_.peer_of(at);
  flight.journey = transit.journey;
  flight.blocks = blocks_of(packet.words);
  flight.lane = lane;
  flight.hops = static_cast<std::uint8_t>(transit.hops + 1);
  flight.is_damaged = crossing.is_damaged;
  if (is_late) late_flights_.add(late);
}

void Fabric::Machine::note_arrival(PortEnd at, JourneyId journey, const Hold& hold) {
  DataOutcome& outcome = data_outcomes_.add();
  outcome.handle = journeys_.at(journey).handle;
  outcome.kind = DataOutcome::Kind::kArrived;
  outcome.lane = wire::VirtualLane{hold.lane};
  outcome.blocks = hold.blocks;
  outcome.port = at;
}

void Fabric::Machine::end_copy(JourneyId journey) {
  if (!journeys_.end_copy(journey)) return;
  DataOutcome& outcome = data_outcomes_.add();
  outcome.handle = journeys_.end(journey);
  outcome.kind = DataOutcome::Kind::kDone;
  outcome.lane = {};
  outcome.blocks = 0;
  outcome.port = {};
}

}  // namespace verbatim::fabric
