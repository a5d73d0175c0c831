// SPDX-License-Identifier: Apache-2.0
#include "fabric/fabric.h"

#include <utility>

#include "fabric/machine.h"

namespace verbatim::fabric {

Fabric::Fabric(Topology topology, const FabricOptions& options)
    : machine_(std::make_unique<Machine>(std::move(topology), options)) {}
Fabric::Fabric(Fabric&&) noexcept = default;
Fabric& Fabric::operator=(Fabric&&) noexcept = default;
Fabric::~Fabric() = default;

const Topology& Fabric::topology() const noexcept { return machine_->topology(); }

void Fabric::advance(Instant now) { machine_->advance(now); }
std::optional<Instant> Fabric::next_due() const noexcept { return machine_->next_due(); }

Expected<AgentId> Fabric::register_agent(PortEnd port, ClientId client,
                                         const Registration& registration) {
  return machine_->mad_port(port).register_agent(client, registration);
}

Status Fabric::unregister_agent(Instant now, PortEnd port, ClientId client, AgentId agent) {
  const Status status = machine_->mad_port(port).unregister_agent(client, agent);
  machine_->take_outgoing(now, port);
  return status;
}

void Fabric::close_client(Instant now, PortEnd port, ClientId client) {
  machine_->mad_port(port).close_client(client);
  machine_->take_outgoing(now, port);
}

Status Fabric::post_send(Instant now, PortEnd port, ClientId client, UserMad mad) {
  if (!machine_->can_begin(port, mad)) return Errc::kInvalidArgument;
  const Status status = machine_->mad_port(port).post_send(now, client, std::move(mad));
  machine_->take_outgoing(now, port);
  return status;
}

Status Fabric::may_send(PortEnd port, ClientId client, const UserMad& mad,
                        std::size_t octets) const {
  if (!machine_->can_begin(port, mad)) return Errc::kInvalidArgument;
  return machine_->mad_port(port).may_send(client, mad, octets);
}

std::optional<PortDelivery> Fabric::poll_delivery() { return machine_->poll_delivery(); }

void Fabric::post_data(Instant now, PortEnd from, const DataPacket& packet) {
  machine_->post_data(now, from, packet);
}
std::optional<DataOutcome> Fabric::poll_data() { return machine_->poll_data(); }
void Fabric::take_arrival(Instant now, const DataOutcome& arrival) {
  machine_->take_arrival(now, arrival);
}
void Fabric::withdraw(Instant now, PortEnd from, std::uint32_t first_handle,
                      std::uint32_t last_handle) {
  machine_->withdraw(now, from, first_handle, last_handle);
}
void Fabric::report_discard(Instant now, PortEnd at, DropReason reason, const DataPacket& packet) {
  machine_->report_discard(now, at, reason, packet);
}
void Fabric::await_room(PortEnd from, std::uint32_t packets) {
  machine_->await_room(from, packets);
}
std::optional<PortEnd> Fabric::poll_room() { return machine_->poll_room(); }
LaneState Fabric::lane_state(PortEnd port, wire::VirtualLane lane) const noexcept {
  return machine_->lane_state(port, lane);
}
std::vector<LaneWait> Fabric::waiting_lanes() const { return machine_->waiting_lanes(); }

void Fabric::set_tap(PortEnd port, bool is_tapped) noexcept { machine_->set_tap(port, is_tapped); }
std::optional<TappedPacket> Fabric::poll_tapped() { return machine_->poll_tapped(); }

void Fabric::report_bad_keys(Instant now, PortEnd port, const BadKeyReport& report) {
  machine_->report_bad_keys(now, port, report);
}

void Fabric::set_is_sm(Instant now, PortEnd port, bool is_sm) {
  machine_->set_is_sm(now, port, is_sm);
}

bool Fabric::set_cable(Instant now, PortEnd port, bool plugged_in) {
  return machine_->set_cable(now, port, plugged_in);
}
void Fabric::set_power(Instant now, std::uint32_t node, bool on) {
  machine_->set_power(now, node, on);
}
void Fabric::set_description(Instant now, std::uint32_t node, const std::string& description) {
  machine_->set_description(now, node, description);
}
void Fabric::set_loss(std::uint32_t per_mille) noexcept { machine_->set_loss(per_mille); }
bool Fabric::set_link_loss(PortEnd port, std::uint32_t per_mille) noexcept {
  return machine_->set_link_loss(port, per_mille);
}
bool Fabric::set_link_faults(PortEnd port, const link::FaultRules& rules) {
  return machine_->set_link_faults(port, rules);
}
LinkFaultCounts Fabric::link_fault_counts(PortEnd port) const noexcept {
  return machine_->link_fault_counts(port);
}
void Fabric::report_link_error(Instant now, PortEnd port, LinkError error) {
  machine_->report_link_error(now, port, error);
}

std::optional<wire::Smp> Fabric::administer(Instant now, PortEnd at, const wire::Smp& request) {
  return machine_->administer(now, at, request);
}

PortStatus Fabric::port_status(PortEnd port) const { return machine_->port_status(port); }
std::optional<PortEnd> Fabric::poll_change() { return machine_->poll_change(); }
std::optional<PortEnd> Fabric::peer_of(PortEnd port) const noexcept {
  return machine_->peer_of(port);
}
bool Fabric::has_cable(PortEnd port) const noexcept { return machine_->has_cable(port); }
bool Fabric::has_power(std::uint32_t node) const noexcept { return machine_->has_power(node); }
PortCensus Fabric::census() const noexcept { return machine_->census(); }

std::optional<std::uint8_t> Fabric::route_of(std::uint32_t node, wire::Lid lid) const noexcept {
  if (!machine_->node(node).is_switch()) return std::nullopt;
  return machine_->node(node).route_of(lid);
}

std::string Fabric::description(std::uint32_t node) const {
  return machine_->node(node).description();
}

std::uint64_t Fabric::counter(PortEnd port, wire::PortCounter counter) const noexcept {
  if (counter == wire::PortCounter::kTransmitWait) machine_->settle_waits(port.node);
  return machine_->node(port.node).port(port.port).counts.total(counter);
}
std::uint64_t Fabric::drop_count(DropReason reason) const noexcept {
  return machine_->drops().count(reason);
}
std::vector<DropRecord> Fabric::recent_drops() const { return machine_->drops().recent(); }

}  // namespace verbatim::fabric
