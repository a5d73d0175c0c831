// SPDX-License-Identifier: Apache-2.0
#include "fabric/fabric.h"

#include <utility>

#include "fabric/whole.h"

namespace verbatim::fabric {

Fabric::Fabric(Topology topology, const FabricOptions& options)
    : whole_(std::make_unique<Whole>(std::move(topology), options)) {}
Fabric::Fabric(Fabric&&) noexcept = default;
Fabric& Fabric::operator=(Fabric&&) noexcept = default;
Fabric::~Fabric() = default;

const Topology& Fabric::topology() const noexcept { return whole_->topology(); }

void Fabric::advance(Instant now) { whole_->advance(now); }
std::optional<Instant> Fabric::next_due() const noexcept { return whole_->next_due(); }

Expected<AgentId> Fabric::register_agent(PortEnd port, ClientId client,
                                         const Registration& registration) {
  return whole_->mad_port(port).register_agent(client, registration);
}

Status Fabric::unregister_agent(Instant now, PortEnd port, ClientId client, AgentId agent) {
  const Status status = whole_->mad_port(port).unregister_agent(client, agent);
  whole_->settle(now, port);
  return status;
}

void Fabric::close_client(Instant now, PortEnd port, ClientId client) {
  whole_->mad_port(port).close_client(client);
  whole_->settle(now, port);
}

Status Fabric::post_send(Instant now, PortEnd port, ClientId client, UserMad mad) {
  if (!whole_->can_begin(port, mad)) return Errc::kInvalidArgument;
  const Status status = whole_->mad_port(port).post_send(now, client, std::move(mad));
  whole_->settle(now, port);
  return status;
}

Status Fabric::may_send(PortEnd port, ClientId client, const UserMad& mad,
                        std::size_t octets) const {
  if (!whole_->can_begin(port, mad)) return Errc::kInvalidArgument;
  return whole_->mad_port(port).may_send(client, mad, octets);
}

std::optional<PortDelivery> Fabric::poll_delivery() { return whole_->poll_delivery(); }

void Fabric::set_is_sm(Instant now, PortEnd port, bool is_sm) {
  whole_->set_is_sm(now, port, is_sm);
}

bool Fabric::set_cable(Instant now, PortEnd port, bool plugged_in) {
  return whole_->set_cable(now, port, plugged_in);
}
void Fabric::set_power(Instant now, std::uint32_t node, bool on) {
  whole_->set_power(now, node, on);
}
void Fabric::set_description(Instant now, std::uint32_t node, const std::string& description) {
  whole_->set_description(now, node, description);
}
void Fabric::set_loss(std::uint32_t per_mille) noexcept { whole_->set_loss(per_mille); }
bool Fabric::set_link_loss(PortEnd port, std::uint32_t per_mille) noexcept {
  return whole_->set_link_loss(port, per_mille);
}
void Fabric::report_link_error(Instant now, PortEnd port, LinkError error) {
  whole_->report_link_error(now, port, error);
}

PortStatus Fabric::port_status(PortEnd port) const { return whole_->port_status(port); }
std::optional<PortEnd> Fabric::poll_change() { return whole_->poll_change(); }
std::optional<PortEnd> Fabric::peer_of(PortEnd port) const noexcept {
  return whole_->peer_of(port);
}
bool Fabric::has_cable(PortEnd port) const noexcept { return whole_->has_cable(port); }
bool Fabric::has_power(std::uint32_t node) const noexcept { return whole_->has_power(node); }
PortCensus Fabric::census() const noexcept { return whole_->census(); }

std::optional<std::uint8_t> Fabric::route_of(std::uint32_t node, wire::Lid lid) const noexcept {
  if (!whole_->node(node).is_switch()) return std::nullopt;
  return whole_->node(node).route_of(lid);
}

std::string Fabric::description(std::uint32_t node) const {
  return whole_->node(node).description();
}

std::uint64_t Fabric::counter(PortEnd port, wire::PortCounter counter) const noexcept {
  return whole_->node(port.node).port(port.port).counts.total(counter);
}
std::uint64_t Fabric::drop_count(DropReason reason) const noexcept {
  return whole_->drops().count(reason);
}
std::vector<DropRecord> Fabric::recent_drops() const { return whole_->drops().recent(); }

}  // namespace verbatim::fabric
