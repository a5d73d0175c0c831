// SPDX-License-Identifier: Apache-2.0
#include "fabric/topology/read_topology.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fabric/topology/guid_text.h"
#include "fabric/topology/line_scanner.h"
#include "fabric/topology/made_guid.h"

namespace verbatim::fabric {
namespace {

/// A thing that must be unique, and the node that has it.
template <typename Key>
struct Owned {
  Key key{};
  std::uint32_t node = 0;
  friend bool operator<(const Owned& a, const Owned& b) noexcept {
    return std::pair(a.key, a.node) < std::pair(b.key, b.node);
  }
};

/// The second of two neighbours with one key, if there are any.
template <typename Key>
const Owned<Key>* repeated_in(const std::vector<Owned<Key>>& sorted) noexcept {
  const auto found =
      std::ranges::adjacent_find(sorted, {}, [](const auto& owned) { return owned.key; });
  return found == sorted.end() ? nullptr : &*std::next(found);
}

/// Makes a topology of the lines about its nodes and ports: gives GUIDs to what has none, finds the
/// two ends of each link, and checks that the lines agree.
class Completion {
 public:
  Completion(TopologyLines&& lines, TopologyError& error) noexcept
      : lines_(std::move(lines)), error_(error) {}

  [[nodiscard]] Expected<Topology> run() {
    if (!index_names() || !take_remote_guids()) return Errc::kInvalidArgument;
    give_guids();
    if (!check_guids() || !connect()) return Errc::kInvalidArgument;
    for (StatedNode& stated : lines_.nodes) topology_.nodes.push_back(std::move(stated.node));
    return std::move(topology_);
  }

 private:
  using Name = Owned<std::string_view>;
  using GuidOwner = Owned<wire::Guid>;

  /// A port, and what is connected to it so far.
  struct Connection {
    std::optional<PortEnd> peer;
    std::size_t line = 0;
    std::size_t link = 0;   // index in the topology's links
    bool has_rate = false;  // the line says how fast the link is
  };

  [[nodiscard]] bool index_names();
  [[nodiscard]] bool take_remote_guids();
  void give_guids();
  [[nodiscard]] bool check_guids();
  [[nodiscard]] bool connect();
  [[nodiscard]] bool connect(const StatedPort& stated);
  [[nodiscard]] std::optional<PortEnd> remote_of(const StatedPort& stated);
  [[nodiscard]] wire::Guid unused_guid(NodeKind kind);
  [[nodiscard]] bool refuse_guid(const GuidOwner& repeated, const char* what);

  [[nodiscard]] TopologyNode& node(std::uint32_t index) noexcept {
    return lines_.nodes[index].node;
  }
  bool refuse(std::size_t line, std::string message) {
    error_ = {line, std::move(message)};
    return false;
  }

  TopologyLines lines_;
  TopologyError& error_;
  Topology topology_;
  std::vector<Name> names_;                           // sorted
  std::vector<wire::Guid> used_;                      // GUIDs in the text, sorted
  std::uint32_t next_made_ = 0;                       // of the GUIDs that are made
  std::vector<std::vector<Connection>> connections_;  // by node and port
};

bool Completion::index_names() {
  if (lines_.nodes.empty()) {
    return refuse(0,
                  "no node is in this text; a topology is what ibnetdiscover prints, with lines as "
                  "Switch 8 \"S1\"");
  }
  for (std::uint32_t index = 0; index < lines_.nodes.size(); ++index) {
    names_.push_back({node(index).id, index});
  }
  std::ranges::sort(names_, std::less<>());
  const Name* const repeated = repeated_in(names_);
  if (repeated == nullptr) return true;
  return refuse(lines_.nodes[repeated->node].line,
                in_quotes(repeated->key) + " is the name of the node in line " +
                    std::to_string(lines_.nodes[std::prev(repeated)->node].line) + ", too");
}

std::optional<PortEnd> Completion::remote_of(const StatedPort& stated) {
  const auto found = std::ranges::lower_bound(names_, stated.remote_id, {}, &Name::key);
  if (found == names_.end() || found->key != stated.remote_id) {
    refuse(stated.line, "no node of this text has the name " + in_quotes(stated.remote_id));
    return std::nullopt;
  }
  const TopologyNode& remote = node(found->node);
  if (stated.remote_port > remote.port_count) {
    refuse(stated.line, in_quotes(remote.id) + " has no port " +
                            std::to_string(stated.remote_port) + ", but ports 1 to " +
                            std::to_string(remote.port_count));
    return std::nullopt;
  }
  return PortEnd{found->node, stated.remote_port};
}

/// GUIDs of the ports of channel adapters also stand in the lines of the switches.
bool Completion::take_remote_guids() {
  for (const StatedPort& stated : lines_.ports) {
    const auto remote = remote_of(stated);
    if (!remote) return false;
    if (node(remote->node).kind == NodeKind::kSwitch || stated.remote_guid == wire::Guid{}) {
      continue;
    }
    wire::Guid& guid = node(remote->node).port_guids[remote->port - 1U];
    if (guid != wire::Guid{} && guid != stated.remote_guid) {
      return refuse(stated.line, "the port has the GUID " + text_of(stated.remote_guid) +
                                     " here, and " + text_of(guid) + " where " +
                                     in_quotes(node(remote->node).id) + " is described");
    }
    guid = stated.remote_guid;
  }
  return true;
}

wire::Guid Completion::unused_guid(NodeKind kind) {
  for (;;) {
    const wire::Guid made = made_guid(kind, next_made_++);
    constexpr std::uint64_t kRange = 256;  // the node and its ports
    const auto next = std::ranges::lower_bound(used_, made);
    if (next == used_.end() || *next >= guid_after(made, kRange)) return made;
  }
}

void Completion::give_guids() {
  for (const StatedNode& stated : lines_.nodes) {
    used_.push_back(stated.node.node_guid);
    used_.insert(used_.end(), stated.node.port_guids.begin(), stated.node.port_guids.end());
  }
  std::ranges::sort(used_);
  for (StatedNode& stated : lines_.nodes) {
    TopologyNode& node = stated.node;
    if (node.node_guid == wire::Guid{}) node.node_guid = unused_guid(node.kind);
    if (node.system_guid == wire::Guid{}) node.system_guid = node.node_guid;
    for (std::size_t at = 0; at < node.port_guids.size(); ++at) {
      wire::Guid& guid = node.port_guids[at];
      if (guid != wire::Guid{}) continue;
      const std::uint64_t number = node.kind == NodeKind::kSwitch ? 0 : at + 1;
      guid = guid_after(node.node_guid, number);
      const bool is_taken = number != 0 && std::ranges::binary_search(used_, guid);
      if (is_taken || guid == wire::Guid{}) guid = unused_guid(node.kind);
    }
  }
}

bool Completion::refuse_guid(const GuidOwner& repeated, const char* what) {
  const StatedNode& first = lines_.nodes[std::prev(&repeated)->node];
  const StatedNode& second = lines_.nodes[repeated.node];
  return refuse(second.line, "the " + std::string(what) + " GUID " + text_of(repeated.key) +
                                 " of " + in_quotes(second.node.id) + " is that of " +
                                 in_quotes(first.node.id) + " in line " +
                                 std::to_string(first.line) + ", too");
}

/// A port may have the GUID of its node, as adapters with one port have.
bool Completion::check_guids() {
  std::vector<GuidOwner> nodes;
  std::vector<GuidOwner> ports;
  for (std::uint32_t index = 0; index < lines_.nodes.size(); ++index) {
    nodes.push_back({node(index).node_guid, index});
    for (const wire::Guid guid : node(index).port_guids) ports.push_back({guid, index});
  }
  std::ranges::sort(nodes, std::less<>());
  std::ranges::sort(ports, std::less<>());
  if (const auto* repeated = repeated_in(nodes)) return refuse_guid(*repeated, "node");
  if (const auto* repeated = repeated_in(ports)) return refuse_guid(*repeated, "port");
  return true;
}

bool Completion::connect() {
  for (const StatedNode& stated : lines_.nodes) {
    connections_.emplace_back(stated.node.port_count + std::size_t{1});
  }
  return std::ranges::all_of(lines_.ports,
                             [this](const StatedPort& stated) { return connect(stated); });
}

bool Completion::connect(const StatedPort& stated) {
  const PortEnd remote = *remote_of(stated);  // take_remote_guids() has checked it
  if (remote == stated.end) return refuse(stated.line, "this port is connected to itself");
  Connection& here = connections_[stated.end.node][stated.end.port];
  Connection& there = connections_[remote.node][remote.port];
  for (const auto& [end, connection, wanted] :
       {std::tuple(stated.end, &here, remote), std::tuple(remote, &there, stated.end)}) {
    if (!connection->peer || *connection->peer == wanted) continue;
    return refuse(stated.line, "port " + std::to_string(end.port) + " of " +
                                   in_quotes(node(end.node).id) + " is connected to port " +
                                   std::to_string(connection->peer->port) + " of " +
                                   in_quotes(node(connection->peer->node).id) + " in line " +
                                   std::to_string(connection->line));
  }
  if (here.peer) {
    TopologyLink& link = topology_.links[here.link];
    const bool is_slower = stated.rate && gigabits_of(*stated.rate) < gigabits_of(link.rate);
    if (is_slower || (stated.rate && !here.has_rate)) link.rate = *stated.rate;
    return true;
  }
  here = {remote, stated.line, topology_.links.size(), stated.rate.has_value()};
  there = {stated.end, stated.line, topology_.links.size(), stated.rate.has_value()};
  topology_.links.push_back({stated.end, remote, stated.rate.value_or(LinkRate{})});
  return true;
}

}  // namespace

Expected<Topology> read_topology(std::string_view text, TopologyError& error) {
  auto lines = read_topology_lines(text, error);
  if (!lines) return lines.error();
  return Completion(std::move(*lines), error).run();
}

}  // namespace verbatim::fabric
