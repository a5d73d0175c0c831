// SPDX-License-Identifier: Apache-2.0
#include "base/assert.h"
#include "fabric/machine.h"

namespace verbatim::fabric {

/// Without delays the packet has arrived everywhere before this returns.
void Fabric::Machine::post_data(Instant now, PortEnd from, const DataPacket& packet) {
  VB_ASSERT(!places_[from.node].node.is_switch());
  const JourneyId journey = journeys_.begin(packet);
  originate_data(now, from, journey);
  end_copy(journey);
  if (options_.hop_delay != Duration{0}) return;
  while (!data_flights_.empty()) arrive_data(now, data_flights_.pop());
}

std::optional<DataOutcome> Fabric::Machine::poll_data() {
  if (data_outcomes_.empty()) return std::nullopt;
  return data_outcomes_.pop();
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
  if (here.is_active() && (is_own || packet.is_multicast())) note_arrival(from, journey);
  if (!is_own) transmit_data(now, from, {.journey = journey});
}

void Fabric::Machine::arrive_data(Instant now, const DataFlight& flight) {
  const PacketHeader& packet = journeys_.at(flight.journey).header;
  if (const auto reason = enter(now, flight.to, packet)) {
    drop(now, flight.to, *reason, packet);
  } else if (places_[flight.to.node].node.is_switch()) {
    packet.is_multicast() ? spread_data(now, flight) : relay_data(now, flight);
  } else if (packet.is_multicast() || port(flight.to).has_lid(packet.destination)) {
    note_arrival(flight.to, flight.journey);
  } else {
    drop(now, flight.to, DropReason::kNotForThisPort, packet);
  }
  end_copy(flight.journey);
}

/// No program can use port 0 of a switch for its data.
void Fabric::Machine::relay_data(Instant now, const DataFlight& flight) {
  const PacketHeader& packet = journeys_.at(flight.journey).header;
  const auto out = way_out(flight.to, packet.destination);
  if (!out) return drop(now, flight.to, out.error(), packet);
  if (*out == 0) return drop(now, flight.to, DropReason::kUnclaimed, packet);
  transmit_data(now, {.node = flight.to.node, .port = *out}, flight);
}

void Fabric::Machine::spread_data(Instant now, const DataFlight& flight) {
  const PacketHeader& packet = journeys_.at(flight.journey).header;
  auto ports = ways_out(flight.to, packet.destination);
  if (!ports) return drop(now, flight.to, ports.error(), packet);
  while (const auto out = ports->take_first()) {
    if (*out == 0) {
      drop(now, flight.to, DropReason::kUnclaimed, packet);
    } else {
      transmit_data(now, {.node = flight.to.node, .port = *out}, flight);
    }
  }
}

/// The tables of a group are a tree, so its copies pass each link once at most. Those that go on
/// are in a loop, and would become ever more.
void Fabric::Machine::transmit_data(Instant now, PortEnd out, const DataFlight& from) {
  Journey& journey = journeys_.at(from.journey);
  const bool loops = journey.header.is_multicast() && journey.links >= topology_.links.size();
  if (const auto reason = leave(now, out, journey.header, loops ? kHopsMax : from.hops)) {
    return drop(now, out, *reason, journey.header);
  }
  const PortEnd peer = jack(out).peer;
  if (data_flights_.size() >= kFlightsMax) {
    return drop(now, peer, DropReason::kCongestion, journey.header);
  }
  ++journey.copies;
  ++journey.links;
  DataFlight& flight = data_flights_.add();
  flight.due = now + options_.hop_delay;
  flight.to = peer;
  flight.journey = from.journey;
  flight.hops = static_cast<std::uint8_t>(from.hops + 1);
}

void Fabric::Machine::note_arrival(PortEnd at, JourneyId journey) {
  DataOutcome& outcome = data_outcomes_.add();
  outcome.handle = journeys_.at(journey).handle;
  outcome.kind = DataOutcome::Kind::kArrived;
  outcome.lane = {};
  outcome.blocks = 0;
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
