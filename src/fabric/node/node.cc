// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/node.h"

#include <utility>

#include "fabric/node/link_training.h"

namespace verbatim::fabric {
namespace {

using wire::PortCapability;

constexpr std::uint64_t kDefaultGidPrefix = 0xfe80'0000'0000'0000;
constexpr std::uint32_t kAnyCapability =
    PortCapability::kTrap | PortCapability::kSlMapping | PortCapability::kSystemImageGuid |
    PortCapability::kExtendedSpeeds | PortCapability::kCapabilityMask2 |
    PortCapability::kCapabilityNotice | PortCapability::kClientReregistration |
    PortCapability::kOtherLocalChangesNotice;
constexpr std::uint32_t kAdapterCapability = kAnyCapability | PortCapability::kCommunication;
constexpr std::uint32_t kSwitchCapability =
    kAnyCapability | PortCapability::kSwitchPortPKeyTrap | PortCapability::kMulticastTop;

constexpr std::uint8_t kEightLanes = 4;      // the code of OperVLs
constexpr std::uint8_t kPollWhenDown = 2;    // LinkDownDefaultState
constexpr std::uint8_t kSubnetTimeout = 18;  // 1.07 s
constexpr std::uint8_t kResponseTime = 8;    // 1 ms
constexpr std::uint8_t kErrorThreshold = 8;
constexpr std::uint8_t kLifetime = 18;  // of packets that wait: 1.07 s
constexpr std::uint8_t kStallCount = 7;

/// A port before a subnet manager has seen it.
wire::PortInfo first_port_info(LinkRate rate) {
  wire::PortInfo info;
  info.gid_prefix = kDefaultGidPrefix;
  info.state = wire::PortState::kDown;
  info.physical_state = wire::PortPhysicalState::kPolling;
  info.down_default = kPollWhenDown;
  info.neighbor_mtu = info.mtu_limit = static_cast<std::uint8_t>(wire::PathMtu::k4096);
  info.vl_limit = info.operational_vls = kEightLanes;
  info.vl_high_entries = info.vl_low_entries = Port::kArbitrationEntries;
  info.queue_life = kLifetime;
  info.vl_stall_count = kStallCount;
  info.subnet_timeout = kSubnetTimeout;
  info.response_time = kResponseTime;
  info.physical_error_threshold = info.overrun_threshold = kErrorThreshold;
  set_supported_rate(info, rate);
  return info;
}

/// The low table gives every lane the same weight; the high one is empty.
Port::Arbitration equal_weights() {
  Port::Arbitration table{};
  for (std::size_t lane = 0; lane < Port::kArbitrationEntries; ++lane) {
    table[2 * lane] = static_cast<std::byte>(lane);
    table[2 * lane + 1] = std::byte{1};
  }
  return table;
}

Port first_port(LinkRate rate, std::size_t pkey_limit) {
  Port port;
  port.info = first_port_info(rate);
  port.pkeys.resize(pkey_limit);
  port.pkeys.front() = wire::PKey::kDefault;
  port.low_arbitration = equal_weights();
  return port;
}

Port managed_port(LinkRate rate, wire::Guid guid, std::uint32_t capability_mask) {
  Port port = first_port(rate, Port::kPKeysMax);
  port.guids.front() = guid;
  port.info.guid_limit = Port::kGuidsMax;
  port.info.capability_mask = capability_mask;
  return port;
}

/// Port 0 has no link, and so is always Active.
Port port_zero(wire::Guid guid) {
  Port port = managed_port({}, guid, kSwitchCapability);
  port.info.state = wire::PortState::kActive;
  port.info.physical_state = wire::PortPhysicalState::kLinkUp;
  port.info.vl_high_entries = port.info.vl_low_entries = 0;
  return port;
}

}  // namespace

SwitchPart::SwitchPart(const TopologyNode& node)
    : info{.linear_limit = ForwardingTables::kLinearLimit,
           .multicast_limit = ForwardingTables::kMulticastLimit,
           .life_time = kLifetime,
           .partition_enforcement_limit = Port::kExternalPKeysMax,
           .enforces_inbound = true,
           .enforces_outbound = true,
           .filters_raw_inbound = true,
           .filters_raw_outbound = true,
           .has_enhanced_port0 = node.has_enhanced_port0},
      tables(node.port_count) {}

Node::Node(const TopologyNode& node, std::span<const LinkRate> rates)
    : info_{.type = node.kind == NodeKind::kSwitch ? wire::NodeType::kSwitch
                                                   : wire::NodeType::kChannelAdapter,
            .port_count = node.port_count,
            .system_guid = node.system_guid,
            .node_guid = node.node_guid,
            .pkey_limit = Port::kPKeysMax,
            .device_id = node.device_id,
            .vendor_id = node.vendor_id},
      port_count_(node.port_count),
      description_(node.description) {
  ports_.reserve(port_count_ + std::size_t{1});
  if (node.kind == NodeKind::kSwitch) {
    switch_part_.emplace(node);
    ports_.push_back(port_zero(node.port_guids.front()));
    for (std::size_t at = 1; at <= port_count_; ++at) {
      ports_.push_back(first_port(rates[at], Port::kExternalPKeysMax));
    }
    return;
  }
  ports_.emplace_back();
  adapter_lanes_.resize(port_count_ + std::size_t{1}, kFirstLanes);
  for (std::size_t at = 1; at <= port_count_; ++at) {
    ports_.push_back(managed_port(rates[at], node.port_guids[at - 1], kAdapterCapability));
  }
}

wire::NodeInfo Node::info(std::uint8_t ingress) const noexcept {
  wire::NodeInfo info = info_;
  info.port_guid = ports_[management_port(ingress)].guids.front();
  info.local_port = ingress;
  return info;
}

void Node::set_lane_map(std::uint8_t in, std::uint8_t out, const SwitchPart::LaneMap& map) {
  if (!is_switch()) {
    adapter_lanes_[out] = map;
    return;
  }
  auto& maps = switch_part_->lane_maps;
  if (maps.empty()) maps.resize(ports_.size() * ports_.size(), kFirstLanes);
  maps[lane_map_index(in, out)] = map;
}

/// Whether the multicast table has this LID: MulticastFDBTop is 0 until a subnet manager has
/// written it, and then all entries count (14.2.5.4).
bool Node::has_entry(wire::Lid multicast_lid) const noexcept {
  const auto lid = static_cast<unsigned>(multicast_lid);
  const auto first = static_cast<unsigned>(wire::Lid::kFirstMulticast);
  const unsigned top = switch_part_->info.multicast_top;
  return lid < first + switch_part_->info.multicast_limit && (top == 0 || lid <= top);
}

/// The default ports are for the LIDs that the table does not have (18.2.4.3.3); 0: there is none.
PortSet Node::ports_of(wire::Lid multicast_lid, std::uint8_t ingress) const noexcept {
  const wire::SwitchInfo& info = switch_part_->info;
  PortSet ports;
  if (has_entry(multicast_lid)) {
    ports = switch_part_->tables.ports_of(multicast_lid);
  } else {
    ports.add(ingress == info.default_multicast_primary_port
                  ? info.default_multicast_not_primary_port
                  : info.default_multicast_primary_port);
    ports.remove(0);
  }
  ports.keep_up_to(port_count_);
  return ports;
}

void Node::raise_trap(Instant now, std::uint8_t port, wire::Notice notice, std::uint8_t subject) {
  const Port& from = ports_[port];
  if (from.info.sm_lid == wire::Lid::kReserved || from.info.lid == wire::Lid::kReserved) return;
  notice.producer = info_.type;
  notice.issuer = from.info.lid;
  traps_.raise(now, {.number = notice.number, .port = port, .subject = subject}, notice);
}

}  // namespace verbatim::fabric
