// SPDX-License-Identifier: Apache-2.0
#include "device/fabric_ports.h"

#include <algorithm>

#include "base/byte_order.h"
#include "host/runtime_directory.h"

namespace verbatim::device {
namespace {

constexpr std::uint32_t kPortNumber = 1;
constexpr std::uint8_t kActive = 4;  // PortState, IBA Vol 1, 14.2.5.6

wire::Gid gid_of(std::uint64_t prefix, std::uint64_t interface_id) noexcept {
  wire::Gid gid;
  const std::span<std::byte, 16> octets(std::as_writable_bytes(std::span(gid.octets)));
  store_be<std::uint64_t, 0>(octets, prefix);
  store_be<std::uint64_t, 8>(octets, interface_id);
  return gid;
}

std::vector<wire::PKey> pkeys_of(const host::FabricPortState& state) {
  std::vector<wire::PKey> pkeys;
  const std::size_t count = std::min<std::size_t>(state.pkey_count, state.pkeys.size());
  for (std::size_t at = 0; at < count; ++at) pkeys.push_back(wire::PKey{state.pkeys[at]});
  return pkeys;
}

FabricPort details_of(const std::string& node_name, const host::NodeView& node) {
  const host::FabricPortState& state = node.state.ports[kPortNumber];
  return {.node = node_name,
          .node_number = node.node,
          .number = kPortNumber,
          .system_guid = node.state.system_guid,
          .address = node.state.address,
          .lid = wire::Lid{state.lid},
          .lmc = state.lmc,
          .sm_lid = wire::Lid{state.sm_lid},
          .sm_level = wire::ServiceLevel{state.sm_sl},
          .state = state.state,
          .physical_state = state.physical_state,
          .width = state.width,
          .speed = state.speed,
          .capabilities = state.capabilities,
          .capabilities_2 = state.capabilities_2,
          .lane_limit = state.lane_limit,
          .subnet_timeout = state.subnet_timeout,
          .init_reply = state.init_reply,
          .pkey_violations = state.pkey_violations,
          .qkey_violations = state.qkey_violations,
          .reregister_requests = state.reregister_requests,
          .outages = state.outages,
          .mtu_limit = wire::PathMtu{state.mtu_max},
          .pkeys = pkeys_of(state)};
}

}  // namespace

PortInfo fabric_port_of(const std::string& node_name, const host::NodeView& node) {
  const host::FabricPortState& state = node.state.ports[kPortNumber];
  PortInfo port;
  port.name = host::kFabricAdapterName;
  port.interface = node_name.substr(0, 15);
  port.interface_index = node.node + 1;
  store_be<std::uint64_t, 0>(std::span<std::byte, 8>(std::as_writable_bytes(std::span(port.guid))),
                             node.state.node_guid);
  port.active_mtu = wire::PathMtu{state.mtu};
  port.interface_mtu = wire::octets_of(port.active_mtu);
  port.speed_mbps = state.rate_mbps;
  port.is_up = state.state == kActive;
  const std::size_t gids = std::min<std::size_t>(state.gid_count, state.interface_ids.size());
  for (std::size_t at = 0; at < gids; ++at) {
    const bool is_used = state.interface_ids[at] != 0;
    port.gids.push_back(
        {.gid = is_used ? gid_of(state.gid_prefix, state.interface_ids[at]) : wire::Gid{}});
  }
  port.fabric = details_of(node_name, node);
  return port;
}

bool is_on_fabric() noexcept { return host::FabricChoice::exists(); }

Status enter_node(std::string& message) {
  if (!is_on_fabric()) return Ok{};
  const auto choice = host::FabricChoice::read(message);
  if (!choice) return choice.error();
  const auto view = host::look_at_node(choice->place, choice->node, message);
  if (!view) return view.error();
  host::RuntimeDirectory::enter(choice->place.folder(), view->node);
  return Ok{};
}

Expected<std::vector<PortInfo>> find_fabric_ports(std::string& message) {
  const auto choice = host::FabricChoice::read(message);
  if (!choice) return choice.error();
  const auto view = host::look_at_node(choice->place, choice->node, message);
  if (!view) return view.error();
  if (view->state.ports[kPortNumber].guid != 0) {
    return std::vector{fabric_port_of(choice->node, *view)};
  }
  message = "node " + choice->node + " of fabric " + choice->place.name() +
            " is a switch; programs that use verbs run on nodes with an adapter";
  return Errc::kNoDevice;
}

}  // namespace verbatim::device
