// SPDX-License-Identifier: Apache-2.0
#include "fabric/topology/write_topology.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace verbatim::fabric {
namespace {

std::string hexadecimal(std::uint64_t value) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, 16).ptr;
  return {digits, end};
}
std::string hexadecimal(wire::Guid guid) { return hexadecimal(static_cast<std::uint64_t>(guid)); }

std::string name_of(const TopologyNode& node) {
  const std::string digits = hexadecimal(node.node_guid);
  const char* const prefix = node.kind == NodeKind::kSwitch ? "S-" : "H-";
  return prefix + std::string(16 - digits.size(), '0') + digits;
}

/// What is connected to a port, with the rate.
struct Peer {
  PortEnd end;
  LinkRate rate;
};
using Peers = std::vector<std::optional<Peer>>;  // of a node, by port

class Writer {
 public:
  explicit Writer(const Topology& topology) : topology_(topology) {
    for (const TopologyNode& node : topology.nodes) peers_.emplace_back(node.port_count + 1U);
    for (const TopologyLink& link : topology.links) {
      peers_[link.a.node][link.a.port] = Peer{link.b, link.rate};
      peers_[link.b.node][link.b.port] = Peer{link.a, link.rate};
    }
  }

  [[nodiscard]] std::string run() {
    text_ = "# Topology file, written by verbatim\n";
    for (const NodeKind kind : {NodeKind::kSwitch, NodeKind::kHost}) {
      for (std::uint32_t index = 0; index < topology_.nodes.size(); ++index) {
        if (topology_.nodes[index].kind == kind) write_node(index);
      }
    }
    return std::move(text_);
  }

 private:
  void write_node(std::uint32_t index) {
    const TopologyNode& node = topology_.nodes[index];
    const bool is_switch = node.kind == NodeKind::kSwitch;
    text_ += "\nvendid=0x" + hexadecimal(node.vendor_id);
    text_ += "\ndevid=0x" + hexadecimal(node.device_id);
    text_ += "\nsysimgguid=0x" + hexadecimal(node.system_guid);
    text_ += (is_switch ? "\nswitchguid=0x" : "\ncaguid=0x") + hexadecimal(node.node_guid);
    if (is_switch) text_ += "(" + hexadecimal(node.port_guids.front()) + ")";
    text_ += (is_switch ? "\nSwitch\t" : "\nCa\t") + std::to_string(node.port_count) + " \"" +
             name_of(node) + "\"\t\t# \"" + node.description + "\"";
    if (is_switch) {
      text_ += node.has_enhanced_port0 ? " enhanced" : " base";
      text_ += " port 0 lid " + std::to_string(node.lid_hint) + " lmc 0";
    }
    text_ += '\n';
    for (std::uint8_t port = 1; port != 0 && port <= node.port_count; ++port) {
      if (peers_[index][port]) write_port({index, port}, *peers_[index][port]);
    }
  }

  void write_port(PortEnd end, const Peer& peer) {
    const TopologyNode& node = topology_.nodes[end.node];
    const TopologyNode& other = topology_.nodes[peer.end.node];
    const bool is_host = node.kind == NodeKind::kHost;
    text_ += "[" + std::to_string(end.port) + "]" + guid_of(end) + "\t\"" + name_of(other) + "\"[" +
             std::to_string(peer.end.port) + "]" + guid_of(peer.end) + "\t\t# ";
    if (is_host) text_ += "lid " + std::to_string(lid_of(end)) + " lmc 0 ";
    text_ += "\"" + other.description + "\" lid " + std::to_string(lid_of(peer.end)) + " " +
             fabric::text_of(peer.rate) + "\n";
  }

  /// Only ports of channel adapters show theirs.
  [[nodiscard]] std::string guid_of(PortEnd end) const {
    const TopologyNode& node = topology_.nodes[end.node];
    if (node.kind == NodeKind::kSwitch) return {};
    return "(" + hexadecimal(node.port_guids[end.port - 1U]) + ") ";
  }
  [[nodiscard]] std::uint16_t lid_of(PortEnd end) const noexcept {
    const TopologyNode& node = topology_.nodes[end.node];
    return node.kind == NodeKind::kSwitch || end.port == 1 ? node.lid_hint : std::uint16_t{0};
  }

  const Topology& topology_;
  std::vector<Peers> peers_;  // by node
  std::string text_;
};

}  // namespace

std::string write_topology(const Topology& topology) { return Writer(topology).run(); }

}  // namespace verbatim::fabric
