// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_order.h"
#include "fabric/node/forwarding_tables.h"
#include "fabric/test_fabric.h"

/// A fabric of any shape, of less than 64 nodes, on which a program on h0 has done what a subnet
/// manager does: all ports are Active, and packets take shortest ways. Nothing but tests includes
/// this.
namespace verbatim::fabric::test {

inline Topology tree(const std::string& shape) {
  std::string message;
  auto topology = tree_topology(shape, LinkRate{}, message);
  EXPECT_TRUE(topology) << message;
  return std::move(topology).value();
}

class TestSubnet : public TestFabric {
 public:
  static constexpr wire::Lid kGroup{0xc000};
  static constexpr std::uint16_t kWords = 100;  // of a packet that deliver() sends

  explicit TestSubnet(Topology topology, const FabricOptions& options = {})
      : TestFabric(std::move(topology), options), paths_(nodes().size()), lids_(nodes().size()) {
    discover();
    for (const std::uint32_t each : order_) give_lids(each);
    for (const std::uint32_t each : order_) {
      if (is_switch(each)) write_table(each);
    }
    for (const auto state : {wire::PortState::kArmed, wire::PortState::kActive}) {
      for (const std::uint32_t each : order_) set_states(each, state);
    }
  }

  [[nodiscard]] wire::Lid lid(std::string_view name) const { return lids_[node(name)]; }
  [[nodiscard]] const Path& path(std::string_view name) const { return paths_[node(name)]; }
  [[nodiscard]] PortEnd end(std::string_view name, std::uint8_t port) const {
    return {.node = node(name), .port = port};
  }
  /// The port of one node that is connected with another one.
  [[nodiscard]] PortEnd port_to(std::string_view from, std::string_view to) const {
    for (std::uint8_t port = 1; port <= nodes()[node(from)].port_count; ++port) {
      const auto peer = fabric.peer_of(end(from, port));
      if (peer && peer->node == node(to)) return end(from, port);
    }
    ADD_FAILURE() << from << " has no link to " << to;
    return {};
  }

  [[nodiscard]] DataPacket packet(std::string_view from, wire::Lid to) {
    return {.handle = next_handle_++,
            .source = lid(from),
            .destination = to,
            .dest_qp = wire::QpNumber{0x123},
            .words = kWords};
  }
  [[nodiscard]] DataPacket packet(std::string_view from, std::string_view to) {
    return packet(from, lid(to));
  }
  /// The ports at which a packet arrives. Each is done exactly once, after all its arrivals.
  std::vector<PortEnd> deliver(PortEnd from, const DataPacket& packet) {
    fabric.post_data(now, from, packet);
    wait(std::chrono::milliseconds(10));
    return arrivals_of(packet.handle);
  }
  std::vector<PortEnd> deliver(std::string_view from, std::string_view to) {
    return deliver(host(from), packet(from, to));
  }
  std::vector<PortEnd> deliver(std::string_view from, wire::Lid to) {
    return deliver(host(from), packet(from, to));
  }
  /// A packet that does not arrive. Returns what the fabric has noted about it.
  DropRecord discarded(PortEnd from, const DataPacket& packet) {
    const std::size_t before = drops();
    EXPECT_EQ(deliver(from, packet), std::vector<PortEnd>{});
    EXPECT_EQ(drops(), before + 1);
    const auto records = fabric.recent_drops();
    return records.empty() ? DropRecord{} : records.back();
  }
  DropRecord discarded(std::string_view from, std::string_view to) {
    return discarded(host(from), packet(from, to));
  }
  DropRecord discarded(std::string_view from, wire::Lid to) {
    return discarded(host(from), packet(from, to));
  }
  [[nodiscard]] std::size_t drops() const {
    std::size_t count = 0;
    for (std::size_t reason = 0; reason < kDropReasonCount; ++reason) {
      count += fabric.drop_count(DropReason{static_cast<std::uint8_t>(reason)});
    }
    return count;
  }
  [[nodiscard]] std::uint64_t counted(PortEnd port, wire::PortCounter counter) const {
    return fabric.counter(port, counter);
  }

  /// The port of a switch for a LID.
  void set_route(std::string_view at, wire::Lid to, std::uint8_t port) {
    wire::Smp table{.attribute = wire::SmpAttribute::kLinearForwardingTable};
    const auto read = ask(table, path(at));
    ASSERT_TRUE(read);
    table.data = read->data;
    table.method = wire::MadMethod::kSet;
    table.data[static_cast<std::size_t>(to)] = std::byte{port};
    ASSERT_TRUE(ask(table, path(at)));
  }
  /// The ports of a switch for kGroup, all below 16.
  void set_group(std::string_view at, const std::vector<std::uint8_t>& ports) {
    unsigned mask = 0;
    for (const std::uint8_t port : ports) mask |= 1U << port;
    wire::Smp table{.method = wire::MadMethod::kSet,
                    .attribute = wire::SmpAttribute::kMulticastForwardingTable};
    store_be_at(table.data.data(), static_cast<std::uint16_t>(mask));
    ASSERT_TRUE(ask(table, path(at)));
  }
  /// PortInfo of a port, changed by `change`.
  template <typename Change>
  void change_port(PortEnd port, Change&& change) {
    wire::PortInfo info = port_info(port.port, paths_[port.node]);
    info.state = wire::PortState::kNoChange;
    info.physical_state = wire::PortPhysicalState::kNoChange;
    change(info);
    set(wire::SmpAttribute::kPortInfo, port.port, info, paths_[port.node]);
  }

 private:
  [[nodiscard]] const std::vector<TopologyNode>& nodes() const { return fabric.topology().nodes; }
  [[nodiscard]] bool is_switch(std::uint32_t at) const {
    return nodes()[at].kind == NodeKind::kSwitch;
  }
  /// Calls `visit(port, peer)` for each link of a node.
  template <typename Visit>
  void for_each_link(std::uint32_t at, Visit&& visit) const {
    for (std::uint8_t port = 1; port <= nodes()[at].port_count; ++port) {
      if (const auto peer = fabric.peer_of({.node = at, .port = port})) visit(port, *peer);
    }
  }

  /// The nodes from h0 on, the nearest first. The first one has LID 1.
  void discover() {
    std::vector<bool> is_known(nodes().size());
    order_.push_back(manager().node);
    is_known[manager().node] = true;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const std::uint32_t here = order_[i];
      lids_[here] = wire::Lid{static_cast<std::uint16_t>(i + 1)};
      for_each_link(here, [&](std::uint8_t port, PortEnd peer) {
        if (is_known[peer.node]) return;
        is_known[peer.node] = true;
        paths_[peer.node] = paths_[here];
        paths_[peer.node].push_back(port);
        order_.push_back(peer.node);
      });
    }
  }
  void give_lids(std::uint32_t at) { set_lids(is_switch(at) ? 0U : 1U, lids_[at], paths_[at]); }
  void write_table(std::uint32_t at) {
    wire::Smp table{.method = wire::MadMethod::kSet,
                    .attribute = wire::SmpAttribute::kLinearForwardingTable};
    table.data.fill(std::byte{ForwardingTables::kNoPort});
    for (const std::uint32_t to : order_) {
      if (to != at) table.data[static_cast<std::size_t>(lids_[to])] = std::byte{way(at, to)};
    }
    ASSERT_TRUE(ask(table, paths_[at]));
    set(wire::SmpAttribute::kSwitchInfo, 0, wire::SwitchInfo{.linear_top = 63, .life_time = 18},
        paths_[at]);
  }
  void set_states(std::uint32_t at, wire::PortState state) {
    for_each_link(at, [&](std::uint8_t port, PortEnd) { set_state(port, state, paths_[at]); });
  }
  /// The port of a switch on a shortest way to a node: looked for from the end of the way.
  [[nodiscard]] std::uint8_t way(std::uint32_t from, std::uint32_t to) const {
    std::vector<std::uint8_t> ports(nodes().size());
    std::deque<std::uint32_t> next{to};
    while (ports[from] == 0) {
      const std::uint32_t here = next.front();
      next.pop_front();
      for_each_link(here, [&](std::uint8_t, PortEnd peer) {
        if (peer.node == to || ports[peer.node] != 0) return;
        ports[peer.node] = peer.port;
        next.push_back(peer.node);
      });
    }
    return ports[from];
  }
  std::vector<PortEnd> arrivals_of(std::uint32_t handle) {
    std::vector<PortEnd> ports;
    std::size_t done = 0;
    while (const auto outcome = fabric.poll_data()) {
      EXPECT_EQ(outcome->handle, handle);
      EXPECT_EQ(done, 0U) << "an outcome after the last one";
      if (outcome->kind == DataOutcome::Kind::kDone) {
        ++done;
      } else {
        ports.push_back(outcome->port);
      }
    }
    EXPECT_EQ(done, 1U);
    return ports;
  }

  std::vector<std::uint32_t> order_{};  // of nodes
  std::vector<Path> paths_;             // by node, from h0 on
  std::vector<wire::Lid> lids_;         // by node
  std::uint32_t next_handle_ = 1;
};

}  // namespace verbatim::fabric::test
