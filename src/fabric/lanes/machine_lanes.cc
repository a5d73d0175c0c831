// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <utility>

#include "fabric/machine.h"
#include "fabric/node/link_training.h"

namespace verbatim::fabric {
namespace {

using wire::PortCounter;

constexpr wire::VirtualLane lane_of_number(std::uint8_t number) noexcept {
  return number == LinkLayer::kManagement ? wire::VirtualLane::kManagement
                                          : wire::VirtualLane{number};
}

/// The lanes that the code of OperVLs means; before a subnet manager has set it, all.
constexpr LinkLayer::Lanes lanes_of_code(std::uint8_t code) noexcept {
  switch (code) {
    case 1:
      return 0x01;
    case 2:
      return 0x03;
    case 3:
      return 0x0f;
    default:
      return LinkLayer::kAllDataLanes;
  }
}

}  // namespace

void Fabric::Machine::connect_links() {
  const std::size_t ports = jacks_.size();
  links_ = LinkLayer(ports, {.slowdown = options_.slowdown,
                             .clock_grain = options_.clock_grain,
                             .lane_blocks = options_.lane_blocks});
  for (const TopologyLink& link : topology_.links) links_.connect(link_of(link.a), link_of(link.b));
  for (std::uint32_t node = 0; node < places_.size(); ++node) {
    for (unsigned port = 0; port <= places_[node].node.port_count(); ++port) {
      ends_.push_back({.node = node, .port = static_cast<std::uint8_t>(port)});
    }
  }
  digests_.resize(ports);
  for (const PortEnd end : ends_) refresh_digest(end);
  lifetimes_ = AlarmHeap(ports);
  has_lifetime_.resize(ports);
  life_drops_.resize(ports * LinkLayer::kLanes);
  room_wanted_.resize(ports, kNoRoomWanted);
}

// ---- What a subnet manager sets ----

/// Something about the link of a port has changed: its state, rate, lanes or tables.
void Fabric::Machine::refresh_lanes(Instant now, PortEnd end) {
  const Port& here = port(end);
  const LinkIndex at = link_of(end);
  refresh_digest(end);
  if (!jacks_[at].rate) return;
  links_.set_rate(at, active_rate(here.info));
  links_.set_lanes(at, lanes_of_code(here.info.operational_vls), here);
  discard_unusable(now, end);
}

/// Discards what waits and can never leave.
void Fabric::Machine::discard_unusable(Instant now, PortEnd end) {
  const LinkIndex at = link_of(end);
  const Port& here = port(end);
  for (LinkLayer::Lanes left = links_.waiting(at); left != 0;
       left &= static_cast<LinkLayer::Lanes>(left - 1)) {
    const auto lane = static_cast<std::uint8_t>(std::countr_zero(left));
    const bool is_management = lane == LinkLayer::kManagement;
    DropReason reason{};
    if (!here.passes_subnet_management()) {
      reason = DropReason::kPortDown;
    } else if (!is_management && !here.is_active()) {
      reason = DropReason::kPortNotActive;
    } else if (!is_management && !links_.has_lane(at, lane)) {
      reason = DropReason::kNoLane;
    } else {
      continue;
    }
    while (const auto parcel = links_.remove_first(now, at, lane)) {
      if (reason != DropReason::kNoLane) port(end).counts.add(PortCounter::kInactiveDiscards);
      discard(now, at, reason, *parcel);
    }
  }
}

// ---- Packets that wait ----

/// Lets all happen that takes no time.
void Fabric::Machine::settle(Instant now) {
  for (;;) {
    if (options_.hop_delay == Duration{0} && !data_flights_.empty()) {
      arrive_data(now, data_flights_.pop());
      continue;
    }
    const auto at = links_.poll_turn();
    if (!at) return;
    while (const auto departure = links_.take_parcel(now, *at)) depart(now, *at, *departure);
  }
}

void Fabric::Machine::depart(Instant now, LinkIndex at, const LinkLayer::Departure& departure) {
  const Parcel& parcel = departure.parcel;
  life_drops_[at * LinkLayer::kLanes + departure.lane] = 0;
  if (parcel.is_datagram) {
    send_datagram(now, at, departure.lane, take_datagram(parcel.content), parcel.hops);
  } else {
    send_data(now, at, departure.lane, {.journey = JourneyId{parcel.content}, .hops = parcel.hops});
  }
  links_.release(parcel);
  note_room(at);
}

void Fabric::Machine::wait_data(Instant now, LinkIndex at, std::uint8_t lane,
                                DataTransit& transit) {
  Parcel parcel{.entered = now,
                .content = static_cast<std::uint32_t>(transit.journey),
                .words = journeys_.at(transit.journey).header.words,
                .hops = transit.hops,
                .shares_hold = transit.shares_hold,
                .hold = transit.hold};
  if (transit.shares_hold) links_.add_sharer(transit.hold);
  transit.is_hold_kept = true;
  await_turn(now, at, lane, parcel);
}

void Fabric::Machine::await_turn(Instant now, LinkIndex at, std::uint8_t lane,
                                 const Parcel& parcel) {
  if (is_stalled(at, lane)) {
    port(ends_[at]).counts.add(PortCounter::kQueueLifeDiscards);
    return discard(now, at, DropReason::kLaneStalled, parcel);
  }
  time_ = std::max(time_, now);
  links_.wait(now, at, lane, parcel);
  begin_lifetime(now, at);
}

/// The only limit of datagrams in their own node is that of all datagrams.
void Fabric::Machine::wait_datagram(Instant now, LinkIndex at, std::uint8_t lane,
                                    const Transit& transit) {
  if (flights_.size() + datagrams_waiting_ >= kFlightsMax) {
    return drop(now, ends_[at], DropReason::kCongestion, transit.packet);
  }
  std::uint32_t index = free_datagram_;
  if (index == kNoDatagram) {
    index = static_cast<std::uint32_t>(datagrams_.size());
    datagrams_.emplace_back();
  } else {
    free_datagram_ = datagrams_[index].next;
  }
  datagrams_[index].packet = transit.packet;
  ++datagrams_waiting_;
  Parcel parcel{.entered = now,
                .content = index,
                .words = transit.packet.header().words,
                .hops = transit.hops,
                .is_datagram = true};
  if (transit.hold != nullptr) parcel.hold = std::exchange(*transit.hold, {});
  await_turn(now, at, lane, parcel);
}

ManagementPacket Fabric::Machine::take_datagram(std::uint32_t index) {
  datagrams_[index].next = std::exchange(free_datagram_, index);
  --datagrams_waiting_;
  return datagrams_[index].packet;
}

/// A datagram has left through a port, and is on the link.
void Fabric::Machine::send_datagram(Instant now, LinkIndex at, std::uint8_t lane,
                                    const ManagementPacket& packet, std::uint8_t hops) {
  const PacketHeader header = packet.header();
  const auto crossing = leave(now, at, {.packet = header, .lane = lane}, hops);
  if (!crossing) {
    links_.lose(at, lane);
    return drop(now, ends_[at], crossing.error(), packet);
  }
  Flight flight{.to = jacks_[at].peer,
                .hops = static_cast<std::uint8_t>(hops + 1),
                .has_passed_link = true,
                .is_damaged = crossing->is_damaged,
                .packet = packet};
  if (lane != LinkLayer::kManagement) {
    links_.receive(at, lane, header.words);
    flight.hold = {.at = links_.peer_of(at), .blocks = blocks_of(header.words), .lane = lane};
  }
  fly(now, flight, crossing->delay);
}

/// Puts a datagram of lane 15 into the receive buffer, where those of other lanes are already.
/// False: it was discarded.
bool Fabric::Machine::take_room(Instant now, const Flight& flight, Hold& hold) {
  const PacketHeader header = flight.packet.header();
  if (!header.is_subnet_management()) return true;
  const LinkIndex at = link_of(flight.to);
  if (!links_.has_room(at, header.words)) {
    port(flight.to).counts.add(PortCounter::kLane15Dropped);
    drop(now, flight.to, DropReason::kLane15Full, flight.packet);
    return false;
  }
  links_.receive(links_.peer_of(at), LinkLayer::kManagement, header.words);
  hold = {.at = at, .blocks = blocks_of(header.words), .lane = LinkLayer::kManagement};
  return true;
}

/// A packet that has waited is discarded; the port counts it.
void Fabric::Machine::discard(Instant now, LinkIndex at, DropReason reason, const Parcel& parcel) {
  port(ends_[at]).counts.add(PortCounter::kTransmitDiscards);
  if (parcel.is_datagram) {
    drop(now, ends_[at], reason, take_datagram(parcel.content));
  } else {
    const JourneyId journey{parcel.content};
    drop(now, ends_[at], reason, journeys_.at(journey).header);
    end_copy(journey);
  }
  links_.release(parcel);
  note_room(at);
}

// ---- Owners ----

void Fabric::Machine::take_arrival(Instant now, const DataOutcome& arrival) {
  if (!options_.holds_arrivals || arrival.blocks == 0) return;
  time_ = std::max(time_, now);
  links_.release({.at = link_of(arrival.port),
                  .blocks = arrival.blocks,
                  .lane = static_cast<std::uint8_t>(arrival.lane)});
  settle(time_);
}

/// The others wait on in their order.
void Fabric::Machine::withdraw(Instant now, PortEnd from, std::uint32_t first_handle,
                               std::uint32_t last_handle) {
  time_ = std::max(time_, now);
  const LinkIndex at = link_of(from);
  std::vector<Parcel> others;
  for (std::uint8_t lane = 0; lane < LinkLayer::kDataLanes; ++lane) {
    while (const auto parcel = links_.remove_first(time_, at, lane)) {
      const std::uint32_t handle =
          parcel->is_datagram ? 0 : journeys_.at(JourneyId{parcel->content}).handle;
      if (!parcel->is_datagram && handle >= first_handle && handle <= last_handle) {
        discard(time_, at, DropReason::kSenderGone, *parcel);
      } else {
        others.push_back(*parcel);
      }
    }
    for (const Parcel& other : others) links_.wait(time_, at, lane, other);
    others.clear();
  }
  settle(time_);
}

void Fabric::Machine::await_room(PortEnd from, std::uint32_t packets) {
  room_wanted_[link_of(from)] = packets;
  note_room(link_of(from));
}

void Fabric::Machine::note_room(LinkIndex at) {
  if (room_wanted_[at] == kNoRoomWanted || links_.packets_waiting(at) > room_wanted_[at]) return;
  room_wanted_[at] = kNoRoomWanted;
  rooms_.push(ends_[at]);
}

std::optional<PortEnd> Fabric::Machine::poll_room() {
  if (rooms_.empty()) return std::nullopt;
  return rooms_.pop();
}

LaneState Fabric::Machine::lane_state(PortEnd end, wire::VirtualLane lane) const noexcept {
  const auto number = static_cast<std::uint8_t>(lane);
  if (lane == wire::VirtualLane::kManagement) {
    return links_.state_of(link_of(end), LinkLayer::kManagement);
  }
  return number < LinkLayer::kDataLanes ? links_.state_of(link_of(end), number) : LaneState{};
}

std::vector<LaneWait> Fabric::Machine::waiting_lanes() const {
  std::vector<LaneWait> waits;
  for (LinkIndex at = 0; at < ends_.size(); ++at) {
    for (LinkLayer::Lanes left = links_.waiting(at); left != 0;
         left &= static_cast<LinkLayer::Lanes>(left - 1)) {
      const auto number = static_cast<std::uint8_t>(std::countr_zero(left));
      LaneWait wait{.out = {.port = ends_[at], .lane = lane_of_number(number)},
                    .since = links_.first_since(at, number),
                    .packets = links_.state_of(at, number).queued_packets};
      if (const auto full = links_.lacks_credits_of(at, number)) {
        wait.buffer = LaneEnd{.port = ends_[*full], .lane = wait.out.lane};
      }
      links_.for_each_hold(at, number, [&](const Hold& hold) {
        if (hold.blocks == 0) return;
        const LaneEnd source{.port = ends_[hold.at], .lane = lane_of_number(hold.lane)};
        if (std::ranges::find(wait.sources, source) == wait.sources.end()) {
          wait.sources.push_back(source);
        }
      });
      waits.push_back(std::move(wait));
    }
  }
  return waits;
}

void Fabric::Machine::settle_waits(std::uint32_t node) noexcept {
  for (unsigned number = 0; number <= places_[node].node.port_count(); ++number) {
    const PortEnd end{.node = node, .port = static_cast<std::uint8_t>(number)};
    const std::uint64_t words = links_.take_waited_words(time_, link_of(end));
    if (words != 0) port(end).counts.add(PortCounter::kTransmitWait, words);
  }
}

}  // namespace verbatim::fabric
