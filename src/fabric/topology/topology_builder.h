// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "fabric/topology/made_guid.h"
#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// Makes a topology node by node: GUIDs are made, the description is the name.
class TopologyBuilder {
 public:
  explicit TopologyBuilder(LinkRate rate = {}) noexcept : rate_(rate) {}

  /// The number of the new node.
  std::uint32_t add_host(std::string name, std::uint8_t ports = 1) {
    const wire::Guid guid = made_guid(NodeKind::kHost, hosts_++);
    std::uint32_t index = add(NodeKind::kHost, std::move(name), ports, guid);
    TopologyNode& node = topology_.nodes[index];
    for (std::uint8_t port = 1; port <= ports; ++port) {
      node.port_guids.push_back(guid_after(guid, port));
    }
    return index;
  }
  std::uint32_t add_switch(std::string name, std::uint8_t ports) {
    const wire::Guid guid = made_guid(NodeKind::kSwitch, switches_++);
    std::uint32_t index = add(NodeKind::kSwitch, std::move(name), ports, guid);
    topology_.nodes[index].port_guids.push_back(guid);
    return index;
  }
  /// The ports exist and have no link yet.
  void connect(PortEnd a, PortEnd b) { topology_.links.push_back({a, b, rate_}); }

  [[nodiscard]] Topology take() noexcept { return std::move(topology_); }

 private:
  std::uint32_t add(NodeKind kind, std::string name, std::uint8_t ports, wire::Guid guid) {
    const bool is_switch = kind == NodeKind::kSwitch;
    topology_.nodes.push_back({.kind = kind,
                               .port_count = ports,
                               .id = name,
                               .description = std::move(name),
                               .node_guid = guid,
                               .system_guid = guid,
                               .vendor_id = kMadeVendorId,
                               .device_id = is_switch ? kMadeSwitchDevice : kMadeHostDevice});
    return static_cast<std::uint32_t>(topology_.nodes.size() - 1);
  }

  LinkRate rate_;
  std::uint32_t hosts_ = 0;
  std::uint32_t switches_ = 0;
  Topology topology_;
};

}  // namespace verbatim::fabric
