// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_programs.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <variant>

#include "tools/fabric/user_mad_header.h"

namespace verbatim::tools {
namespace {

using fabric::NodeKind;
using fabric::PortEnd;
using fabric::TopologyNode;
using host::FabricEvent;

std::uint64_t half_of(const wire::Gid& gid, std::size_t first) noexcept {
  std::uint64_t half = 0;
  for (std::size_t at = first; at < first + 8; ++at) half = half << 8 | gid.octets[at];
  return half;
}

host::FabricPortState port_state(const fabric::PortStatus& status) {
  host::FabricPortState state;
  state.guid = static_cast<std::uint64_t>(status.port_guid);
  if (!status.gids.empty()) state.gid_prefix = half_of(status.gids.front(), 0);
  state.capabilities = status.capability_mask;
  state.capabilities_2 = status.capability_mask_2;
  state.reregister_requests = static_cast<std::uint16_t>(status.reregister_requests);
  state.outages = static_cast<std::uint16_t>(status.outages);
  state.pkey_violations = status.pkey_violations;
  state.qkey_violations = status.qkey_violations;
  state.subnet_timeout = status.subnet_timeout;
  state.init_reply = status.init_reply;
  state.lane_limit = status.lane_limit;
  state.rate_mbps = fabric::megabits_of(status.rate);
  state.speed = static_cast<std::uint16_t>(1U << static_cast<unsigned>(status.rate.speed));
  state.lid = static_cast<std::uint16_t>(status.lid);
  state.sm_lid = static_cast<std::uint16_t>(status.sm_lid);
  state.lmc = status.lmc;
  state.sm_sl = static_cast<std::uint8_t>(status.sm_level);
  state.state = static_cast<std::uint8_t>(status.state);
  state.physical_state = static_cast<std::uint8_t>(status.physical_state);
  state.width = static_cast<std::uint8_t>(status.rate.width);
  state.mtu = static_cast<std::uint8_t>(status.mtu);
  state.mtu_max = static_cast<std::uint8_t>(status.mtu_limit);
  const std::size_t gids = std::min(status.gids.size(), host::FabricPortState::kGidsMax);
  state.gid_count = static_cast<std::uint8_t>(gids);
  for (std::size_t at = 0; at < gids; ++at) {
    state.interface_ids[at] = half_of(status.gids[at], 8);
  }
  const std::size_t pkeys = std::min(status.pkeys.size(), host::FabricPortState::kPkeysMax);
  state.pkey_count = static_cast<std::uint16_t>(pkeys);
  for (std::size_t at = 0; at < pkeys; ++at) {
    state.pkeys[at] = static_cast<std::uint16_t>(status.pkeys[at]);
  }
  return state;
}

/// The ports that programs can open: those of an adapter, and port 0 of a switch.
struct PortRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

PortRange ports_of(const TopologyNode& node) noexcept {
  if (node.kind == NodeKind::kSwitch) return {};
  const std::uint32_t last = host::FabricNodeState::kPortsMax - 1;
  return {1, std::min<std::uint32_t>(node.port_count, last)};
}

/// As Linux answers a program.
int errno_of(Errc error) noexcept { return error == Errc::kNoMemory ? ENOMEM : EINVAL; }

}  // namespace

host::FabricNodeState node_state(const fabric::Fabric& fabric, std::uint32_t node) {
  const TopologyNode& about = fabric.topology().nodes[node];
  const bool is_switch = about.kind == NodeKind::kSwitch;
  host::FabricNodeState state;
  state.kind =
      is_switch ? host::FabricNodeState::Kind::kSwitch : host::FabricNodeState::Kind::kAdapter;
  state.vendor = about.vendor_id;
  state.device = about.device_id;
  state.node_guid = static_cast<std::uint64_t>(about.node_guid);
  state.system_guid = static_cast<std::uint64_t>(about.system_guid);
  const std::string description = fabric.description(node);
  std::copy_n(description.begin(), std::min(description.size(), state.description.size()),
              state.description.begin());
  const PortRange range = ports_of(about);
  for (std::uint32_t port = range.first; port <= range.last; ++port) {
    state.ports[port] = port_state(fabric.port_status({node, static_cast<std::uint8_t>(port)}));
  }
  return state;
}

void FabricPrograms::handle(Instant now, FabricEvent&& event) {
  const ClientNumber client = event.client;
  if (const auto* attached = std::get_if<FabricEvent::Attached>(&event.what)) {
    handle(client, *attached);
  } else if (const auto* called = std::get_if<FabricEvent::Called>(&event.what)) {
    handle(now, client, *called);
  } else if (auto* sent = std::get_if<FabricEvent::Sent>(&event.what)) {
    handle(now, client, std::move(*sent));
  } else if (const auto* claimed = std::get_if<FabricEvent::Claimed>(&event.what)) {
    data_.set_service(client, claimed->service, claimed->listens);
  } else if (const auto* left = std::get_if<FabricEvent::Left>(&event.what)) {
    handle(now, client, *left);
  } else if (const auto* changed = std::get_if<FabricEvent::SmChanged>(&event.what)) {
    handle(now, *changed);
  }
}

void FabricPrograms::handle(ClientNumber client, const FabricEvent::Attached& attached) {
  std::string message;
  const auto node = names_.find(attached.node, message);
  if (!node) {
    server_.refuse(client, ENODEV, message);
    return;
  }
  if (!fabric_.has_power(*node)) {
    server_.refuse(client, ENODEV,
                   "node " + names_.name_of(*node) + " has no power; `verbatim fabric node on " +
                       names_.name_of(*node) + "` gives it back");
    return;
  }
  if (const std::string why = objection_to(*node, attached); !why.empty()) {
    server_.refuse(client, EINVAL, why);
    return;
  }
  const PortEnd port{*node, static_cast<std::uint8_t>(attached.port)};
  if (attached.purpose == host::FabricHello::Purpose::kData) {
    data_.attach({.client = client, .port = port, .slot = attached.slot}, state_of(*node),
                 names_.name_of(port));
    return;
  }
  const bool is_there = server_.accept(client, *node, state_of(*node));
  if (is_there && attached.purpose == host::FabricHello::Purpose::kPort) {
    ports_.emplace(client, port);
  }
}

std::string FabricPrograms::objection_to(std::uint32_t node,
                                         const FabricEvent::Attached& attached) const {
  using Purpose = host::FabricHello::Purpose;
  const TopologyNode& about = fabric_.topology().nodes[node];
  if (attached.purpose == Purpose::kData && about.kind == NodeKind::kSwitch) {
    return "node " + names_.name_of(node) + " is a switch; only hosts send data";
  }
  const PortRange range = ports_of(about);
  const bool is_there = attached.port >= range.first && attached.port <= range.last;
  if (attached.purpose == Purpose::kLook || is_there) return {};
  return "node " + names_.name_of(node) + " has no port " + std::to_string(attached.port) +
         " for programs, but ports " + std::to_string(range.first) + " to " +
         std::to_string(range.last);
}

void FabricPrograms::handle(Instant now, ClientNumber client, const FabricEvent::Called& called) {
  const auto port = ports_.find(client);
  host::FabricReply reply;
  reply.error = EINVAL;
  const fabric::ClientId number{client};
  if (port == ports_.end()) {
    server_.reply(client, called.call, reply);
    return;
  }
  switch (called.request.kind) {
    case host::FabricCall::Kind::kRegister:
      reply = register_agent(port->second, client, called.request);
      break;
    case host::FabricCall::Kind::kFind:
      reply = find(called.request);
      break;
    case host::FabricCall::Kind::kServeConnections:
      groups_.keep(client, port->second);
      connected_.push_back(client);
      reply.error = 0;
      break;
    case host::FabricCall::Kind::kMaySend: {
      const auto& [header, start] = called.about;
      const std::size_t octets =
          header.octets - std::min<std::size_t>(header.octets, sizeof header);
      const auto allowed =
          fabric_.may_send(port->second, number, mad_of(header, std::vector(start)), octets);
      reply.error = allowed.ok() ? 0 : errno_of(allowed.error());
      break;
    }
    case host::FabricCall::Kind::kUnregister: {
      const auto ended = fabric_.unregister_agent(now, port->second, number,
                                                  fabric::AgentId{called.request.agent});
      reply.error = ended.ok() ? 0 : errno_of(ended.error());
      break;
    }
  }
  server_.reply(client, called.call, reply);
}

host::FabricReply FabricPrograms::register_agent(PortEnd port, ClientNumber client,
                                                 const host::FabricCall& request) {
  host::FabricReply reply;
  const auto registration = registration_of(request);
  if (!registration) {
    reply.error = EINVAL;
    reply.flags = kRegistrationFlags;  // so that the program can ask again without the others
    return reply;
  }
  reply.flags = request.flags & kRegistrationFlags;
  const auto agent = fabric_.register_agent(port, fabric::ClientId{client}, *registration);
  reply.error = agent.ok() ? 0 : errno_of(agent.error());
  if (agent.ok()) reply.agent = static_cast<std::uint32_t>(*agent);
  return reply;
}

/// The first GID of the first port.
host::FabricReply FabricPrograms::find(const host::FabricCall& request) const {
  host::FabricReply reply;
  const auto node = addresses_.node_at(request.address);
  const auto gids = node ? fabric_.port_status({*node, 1}).gids : std::vector<wire::Gid>();
  if (gids.empty()) {
    reply.error = EHOSTUNREACH;
  } else {
    reply.gid = gids.front().octets;
  }
  return reply;
}

void FabricPrograms::tell_departure(const FabricDataPorts::Arrival& seat) {
  const fabric::PortStatus status = fabric_.port_status(seat.port);
  const host::FabricDeparture departure{
      .slot = seat.slot, .lid = static_cast<std::uint16_t>(status.lid), .lmc = status.lmc};
  for (const ClientNumber client : connected_) server_.tell(client, departure);
}

host::FabricNodeState FabricPrograms::state_of(std::uint32_t node) const {
  host::FabricNodeState state = node_state(fabric_, node);
  state.address = addresses_.address_of(node);
  return state;
}

/// Most programs ask before they send what could be refused. Otherwise they have no other way to
/// learn that their request is not on the way: it comes back at once as one that was not answered.
void FabricPrograms::handle(Instant now, ClientNumber client, FabricEvent::Sent&& sent) {
  const auto port = ports_.find(client);
  if (port == ports_.end()) return;
  if (groups_.handle_request(client, sent.message)) {
    (void)server_.deliver(client, sent.header, sent.message);  // one that does not read loses it
    return;
  }
  const std::size_t returned = std::min(sent.message.size(), fabric::UserMad::kUnansweredOctets);
  const std::vector<std::byte> start(sent.message.begin(),
                                     sent.message.begin() + static_cast<std::ptrdiff_t>(returned));
  const auto posted = fabric_.post_send(now, port->second, fabric::ClientId{client},
                                        mad_of(sent.header, std::move(sent.message)));
  if (posted || sent.header.timeout_ms == 0) return;
  sent.header.status = fabric::UserMad::kTimedOut;
  (void)server_.deliver(client, sent.header, start);  // one that does not read loses it
}

void FabricPrograms::handle(Instant now, ClientNumber client, const FabricEvent::Left&) {
  if (const auto seat = data_.seat_of(client)) {
    (void)data_.detach(now, client);
    return tell_departure(*seat);
  }
  const auto port = ports_.find(client);
  if (port == ports_.end()) return;
  groups_.close(now, client);
  std::erase(connected_, client);
  fabric_.close_client(now, port->second, fabric::ClientId{client});
  ports_.erase(port);
}

void FabricPrograms::handle(Instant now, const FabricEvent::SmChanged& changed) {
  fabric_.set_is_sm(now, {changed.node, static_cast<std::uint8_t>(changed.port)}, changed.is_sm);
}

void FabricPrograms::drain() {
  while (const auto delivery = fabric_.poll_delivery()) {
    const auto client = static_cast<ClientNumber>(delivery->delivery.client);
    const fabric::UserMad& mad = delivery->delivery.mad;
    groups_.handle_answer(client, mad.octets);
    (void)server_.deliver(client, header_of(mad), mad.octets);  // one that does not read loses it
  }
  while (const auto changed = fabric_.poll_change()) {
    if (server_.has_page(changed->node)) {
      server_.publish(changed->node, state_of(changed->node));
    }
  }
}

}  // namespace verbatim::tools
