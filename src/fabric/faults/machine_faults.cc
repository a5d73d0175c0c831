// SPDX-License-Identifier: Apache-2.0
#include <variant>

#include "fabric/machine.h"

namespace verbatim::fabric {

/// Each link has a seed of its own, so that the faults of one do not depend on the packets of
/// another one.
bool Fabric::Machine::set_link_faults(PortEnd end, const link::FaultRules& rules) {
  if (!jack(end).rate) return false;
  const PortEnd peer = jack(end).peer;
  jack(end).faults.reset();
  jack(peer).faults.reset();
  if (!rules.rules.empty()) {
    using Side = link::DirectionRules::Side;
    const std::uint64_t number = places_[end.node].first_jack + end.port;
    const std::uint64_t seed = Prng(options_.seed ^ number << 32).next();
    jack(end).faults = std::make_shared<LinkFaults>(rules, Side::kOut, seed);
    jack(peer).faults = std::make_shared<LinkFaults>(rules, Side::kIn, seed);
  }
  refresh_digest(end);
  refresh_digest(peer);
  return true;
}

LinkFaultCounts Fabric::Machine::link_fault_counts(PortEnd end) const noexcept {
  return jack(end).faults ? jack(end).faults->counts() : LinkFaultCounts{};
}

Expected<Crossing, DropReason> Fabric::Machine::cross_faulty(Instant now, PortEnd out,
                                                             const PacketHeader& packet) {
  const LinkFaults::Fate fate = jack(out).faults->judge(now, packet);
  const bool has_room = fate.delay == Duration(0) || late_flights_.size() < kFlightsMax;
  if (!has_room) return DropReason::kCongestion;
  if (!fate.is_lost) return Crossing{.delay = fate.delay, .is_damaged = fate.is_damaged};
  count_lost(out, packet);
  return DropReason::kLossOnPurpose;
}

/// A packet with a wrong VCRC changes nothing but the counter of such packets (IBA Vol 1, 7.3 and
/// 16.1.3.5).
DropReason Fabric::Machine::take_damaged(Instant now, PortEnd at, const OnLink& packet) {
  PortCounts& counts = port(at).counts;
  counts.add(wire::PortCounter::kReceiveErrors);
  counts.add(wire::PortCounter::kLocalPhysicalErrors);
  if (jack(at).is_tapped) tap(now, at, TappedPacket::Direction::kIn, packet);
  return DropReason::kDamageOnPurpose;
}

void Fabric::Machine::arrive_late(Instant now) {
  const LateFlights::Any flight = late_flights_.take();
  if (const auto* const datagram = std::get_if<Flight>(&flight)) {
    arrive(now, *datagram);
  } else {
    arrive_data(now, std::get<DataFlight>(flight));
  }
}

}  // namespace verbatim::fabric
