// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fabric/topology/link_rate.h"
#include "wire/headers/guid.h"

namespace verbatim::fabric {

/// What a node of a fabric is (IBA Vol 1, 14.2.5.3). Routers are not supported.
enum class NodeKind : std::uint8_t {
  kHost,    // a channel adapter
  kSwitch,  // has a management port 0, which has the LID
};

/// One port of one node. `node` is the index in Topology::nodes.
struct PortEnd {
  std::uint32_t node = 0;
  std::uint8_t port = 0;  // 1 to the node's port_count; 0 is the management port of a switch
  friend bool operator==(const PortEnd&, const PortEnd&) noexcept = default;
};

/// A channel adapter or a switch.
struct TopologyNode {
  NodeKind kind = NodeKind::kHost;
  std::uint8_t port_count = 1;  // without the management port of a switch
  std::string id;               // its name in the file: unique, not empty
  std::string description;      // what NodeDescription says, at most 64 octets
  wire::Guid node_guid{};       // not zero, unique among nodes
  wire::Guid system_guid{};     // may be that of several nodes
  // One per port of a channel adapter, so port 1 is at index 0; the one of port 0 of a switch,
  // which may be the node's. Not zero, unique among ports.
  std::vector<wire::Guid> port_guids{};
  std::uint32_t vendor_id = 0;  // 24 bits
  std::uint16_t device_id = 0;
  bool has_enhanced_port0 = false;  // a switch whose port 0 is like a port of a channel adapter
  std::uint16_t lid_hint = 0;       // the LID in the file, of port 0 or port 1; 0: none. The subnet
                                    // manager gives the real one.
};

/// A cable between two ports; neither is a port 0.
struct TopologyLink {
  PortEnd a;
  PortEnd b;
  LinkRate rate;
};

/// The nodes and links of a fabric, as a file or a generator has them. What a reader or a generator
/// returns is complete: names and GUIDs are unique, all indices are valid, and each port has at
/// most one link.
struct Topology {
  static constexpr std::size_t kNodesMax = 16'384;    // a third of the LIDs of a subnet
  static constexpr std::size_t kPortsMax = 254;       // of a switch: numbers from 1 on
  static constexpr std::size_t kHostPortsMax = 16;    // of a channel adapter
  static constexpr std::size_t kDescriptionMax = 64;  // octets

  std::vector<TopologyNode> nodes;
  std::vector<TopologyLink> links;
};

}  // namespace verbatim::fabric
