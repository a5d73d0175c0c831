// SPDX-License-Identifier: Apache-2.0
#include "fabric/machine.h"

#include <algorithm>
#include <span>
#include <utility>

#include "fabric/node/link_training.h"
#include "wire/management/trap_details.h"

namespace verbatim::fabric {
namespace {

/// When the first packet of a queue arrives.
template <typename Entry>
Instant due_of(const RingQueue<Entry>& flights) noexcept {
  return flights.empty() ? Instant::never() : flights.front().due;
}

DropRecord record_of(Instant now, PortEnd at, DropReason reason,
                     const PacketHeader& packet) noexcept {
  return {.at = now,
          .port = at,
          .reason = reason,
          .kind = packet.kind,
          .source = packet.source,
          .destination = packet.destination,
          .dest_qp = packet.dest_qp};
}

}  // namespace

Fabric::Machine::Machine(Topology topology, const FabricOptions& options)
    : topology_(std::move(topology)),
      options_(options),
      links_(0, {}),
      pacer_(options.slowdown, options.clock_grain),
      prng_(options.seed) {
  add_jacks();
  connect_links();
  is_deliverer_.resize(mad_ports_.size());
  alarms_ = AlarmHeap(mad_ports_.size() + places_.size());
  for (const PortEnd end : mad_ends_) identify(end);
  for (const TopologyLink& link : topology_.links) bring_up(Instant{}, link.a);
}

void Fabric::Machine::add_jacks() {
  std::vector<std::size_t> first_jacks;
  std::size_t jacks = 0;
  for (const TopologyNode& node : topology_.nodes) {
    first_jacks.push_back(jacks);
    jacks += node.port_count + std::size_t{1};
  }
  jacks_.resize(jacks);
  for (const TopologyLink& link : topology_.links) {
    const Jack to_b{.peer = link.b, .rate = link.rate, .is_plugged_in = true};
    const Jack to_a{.peer = link.a, .rate = link.rate, .is_plugged_in = true};
    jacks_[first_jacks[link.a.node] + link.a.port] = to_b;
    jacks_[first_jacks[link.b.node] + link.b.port] = to_a;
  }
  places_.reserve(topology_.nodes.size());
  for (const TopologyNode& node : topology_.nodes) add_node(node, first_jacks[places_.size()]);
}

void Fabric::Machine::add_node(const TopologyNode& node, std::size_t first_jack) {
  const auto index = static_cast<std::uint32_t>(places_.size());
  places_.push_back({.node = make_node(node, first_jack),
                     .first_jack = first_jack,
                     .first_mad_port = mad_ports_.size()});
  const std::uint8_t first = node.kind == NodeKind::kSwitch ? 0 : 1;
  const std::uint8_t last = node.kind == NodeKind::kSwitch ? 0 : node.port_count;
  for (unsigned port = first; port <= last; ++port) {
    mad_ports_.emplace_back(&message_octets_);
    mad_ends_.push_back({.node = index, .port = static_cast<std::uint8_t>(port)});
  }
}

Node Fabric::Machine::make_node(const TopologyNode& node, std::size_t first_jack) const {
  Node made(node, rates_of(first_jack, node.port_count));
  made.set_hides_extended_speeds(options_.has_strict_switches && made.is_switch());
  return made;
}

/// By port. A port without a link could have the rate that another link of the node has.
std::vector<LinkRate> Fabric::Machine::rates_of(std::size_t first_jack,
                                                std::uint8_t port_count) const {
  const auto jacks = std::span(jacks_).subspan(first_jack, port_count + std::size_t{1});
  LinkRate usual;
  for (const Jack& jack : jacks) usual = jack.rate.value_or(usual);
  std::vector<LinkRate> rates;
  for (const Jack& jack : jacks) rates.push_back(jack.rate.value_or(usual));
  return rates;
}

/// At one instant alarms come first. Packets that are late come before alarms that are late, so
/// that many retries of one program do not hold up the packets of others. What happens to a packet
/// happens when it was due, though the owner may be late, so a link is never idle for that reason.
void Fabric::Machine::advance(Instant now) {
  settle(time_);
  std::size_t events = 0;
  while (events < kEventsMax) {
    const Instant alarm = alarms_.next_due().value_or(Instant::never());
    const Instant datagram = due_of(flights_);
    const Instant data = due_of(data_flights_);
    const Instant late = late_flights_.next_due();
    const Instant link = links_.next_due();
    const Instant lifetime = lifetimes_.next_due().value_or(Instant::never());
    const Instant paced = pacer_.next_due();
    const Instant packet = std::min({datagram, data, late, link, lifetime, paced});
    if (std::min(alarm, packet) > now) break;
    if (packet > now || packet == alarm) {
      time_ = now;
      handle_alarm(now, alarms_.next_owner());
      events += MadPort::kTimeoutsAtOnce;  // as many may have been handled
    } else {
      time_ = std::max(time_, packet);
      handle_packet_event(
          packet, {.datagram = datagram, .data = data, .late = late, .link = link, .paced = paced});
      ++events;
    }
    settle(time_);
  }
  if (next_due().value_or(Instant::never()) > now) time_ = std::max(time_, now);
}

void Fabric::Machine::handle_packet_event(Instant due, const PacketEvents& events) {
  if (events.link == due) return links_.handle_due();
  if (events.late == due) return arrive_late(time_);
  if (events.data == due) return arrive_data(time_, data_flights_.pop());
  if (events.datagram == due) return arrive(time_, flights_.pop());
  if (events.paced == due) {
    if (const auto packet = pacer_.pop(time_)) {
      begin_data(time_, ends_[packet->from], packet->journey);
    }
    return;
  }
  end_lifetimes(time_, lifetimes_.next_owner());
}

std::optional<Instant> Fabric::Machine::next_due() const noexcept {
  if (links_.has_turns()) return time_;
  const Instant alarm = alarms_.next_due().value_or(Instant::never());
  const Instant lifetime = lifetimes_.next_due().value_or(Instant::never());
  const Instant due =
      std::min({alarm, due_of(flights_), due_of(data_flights_), late_flights_.next_due(),
                links_.next_due(), lifetime, pacer_.next_due()});
  if (due == Instant::never()) return std::nullopt;
  return due;
}

void Fabric::Machine::handle_alarm(Instant now, std::uint32_t owner) {
  if (owner >= mad_ports_.size()) {
    return send_traps(now, static_cast<std::uint32_t>(owner - mad_ports_.size()));
  }
  mad_ports_[owner].handle_timeout(now);
  take_outgoing(now, mad_ends_[owner]);
}

void Fabric::Machine::take_outgoing(Instant now, PortEnd end) {
  const std::size_t index = mad_index(end);
  MadPort& mad_port = mad_ports_[index];
  while (auto packet = mad_port.poll_transmit(now)) originate(now, end, {.packet = *packet});
  alarms_.set(static_cast<std::uint32_t>(index), mad_port.next_timeout());
  if (is_deliverer_[index]) return;
  is_deliverer_[index] = true;
  deliverers_.push_back(index);
}

std::optional<PortDelivery> Fabric::Machine::poll_delivery() {
  while (!deliverers_.empty()) {
    const std::size_t index = deliverers_.back();
    if (auto delivery = mad_ports_[index].poll_delivery()) {
      return PortDelivery{.port = mad_ends_[index], .delivery = std::move(*delivery)};
    }
    is_deliverer_[index] = false;
    deliverers_.pop_back();
  }
  return std::nullopt;
}

void Fabric::Machine::set_is_sm(Instant now, PortEnd end, bool is_sm) {
  wire::PortInfo& info = port(end).info;
  const std::uint32_t mask = is_sm ? info.capability_mask | wire::PortCapability::kIsSm
                                   : info.capability_mask & ~wire::PortCapability::kIsSm;
  if (mask == info.capability_mask) return;
  info.capability_mask = mask;
  list_change(end);
  const wire::LocalChanges changes{.lid = info.lid, .capability_mask = mask};
  places_[end.node].node.raise_trap(now, end.port,
                                    {.type = wire::NoticeType::kInformational,
                                     .number = wire::TrapNumber::kLocalChanges,
                                     .details = changes.details()});
  arm_traps(end.node);
}

void Fabric::Machine::set_description(Instant now, std::uint32_t index,
                                      const std::string& description) {
  Node& node = places_[index].node;
  node.set_description(description.substr(0, Topology::kDescriptionMax));
  const PortEnd end = management_end({.node = index, .port = 1});
  const wire::PortInfo& info = port(end).info;
  const wire::LocalChanges changes{.lid = info.lid,
                                   .has_other_changes = true,
                                   .capability_mask = info.capability_mask,
                                   .changes = wire::LocalChanges::kDescription,
                                   .capability_mask_2 = info.capability_mask_2};
  node.raise_trap(now, end.port,
                  {.type = wire::NoticeType::kInformational,
                   .number = wire::TrapNumber::kLocalChanges,
                   .details = changes.details()});
  arm_traps(index);
}

PortStatus Fabric::Machine::port_status(PortEnd end) const {
  const Port& from = port(end);
  const Port& management = port(management_end(end));
  PortStatus status{.state = from.info.state,
                    .physical_state = from.info.physical_state,
                    .lid = management.info.lid,
                    .lmc = management.info.lmc,
                    .sm_lid = management.info.sm_lid,
                    .sm_level = wire::ServiceLevel{management.info.sm_level},
                    .capability_mask = from.info.capability_mask,
                    .capability_mask_2 = from.info.capability_mask_2,
                    .rate = active_rate(from.info),
                    .mtu_limit = wire::PathMtu{from.info.mtu_limit},
                    .mtu = wire::PathMtu{from.info.neighbor_mtu},
                    .subnet_timeout = management.info.subnet_timeout,
                    .init_reply = management.info.init_reply,
                    .lane_limit = from.info.vl_limit,
                    .pkey_violations = management.info.pkey_violations,
                    .qkey_violations = management.info.qkey_violations,
                    .pkeys = from.pkeys,
                    .port_guid = management.guids.front(),
                    .reregister_requests = management.reregister_requests,
                    .outages = from.outages};
  for (std::size_t i = 0; i < Port::kGuidsMax; ++i) status.gids.push_back(management.gid(i));
  if (places_[end.node].has_power) return status;
  status.state = wire::PortState::kDown;
  status.physical_state = wire::PortPhysicalState::kDisabled;
  return status;
}

std::optional<PortEnd> Fabric::Machine::poll_change() {
  if (changes_.empty()) return std::nullopt;
  const PortEnd end = changes_.back();
  changes_.pop_back();
  jack(end).is_change_listed = false;
  return end;
}

void Fabric::Machine::list_change(PortEnd end) {
  if (!places_[end.node].node.is_external(end.port)) identify(end);
  if (std::exchange(jack(end).is_change_listed, true)) return;
  changes_.push_back(end);
}

/// Tells the MAD port what it needs to know of its port.
void Fabric::Machine::identify(PortEnd end) {
  const Port& from = port(end);
  PortIdentity identity{
      .base_lid = from.info.lid, .lmc = from.info.lmc, .pkeys = from.pkeys, .gids = {}};
  for (std::size_t i = 0; i < Port::kGuidsMax; ++i) identity.gids.push_back(from.gid(i));
  mad_port(end).set_identity(std::move(identity));
}

void Fabric::Machine::drop(Instant now, PortEnd at, DropReason reason,
                           const ManagementPacket& packet) {
  DropRecord record = record_of(now, at, reason, packet.header());
  if (const auto mad = packet.view()) {
    record.mgmt_class = mad->mgmt_class();
    record.attribute_id = mad->attribute_id();
  }
  drops_.add(record);
}

void Fabric::Machine::drop(Instant now, PortEnd at, DropReason reason, const PacketHeader& packet) {
  drops_.add(record_of(now, at, reason, packet));
}

}  // namespace verbatim::fabric
