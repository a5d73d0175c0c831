// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/topology/generate.h"
#include "wire/headers/smp.h"
#include "wire/management/port_info.h"
#include "wire/management/switch_info.h"

/// One switch with hosts, and a program on its first host that does what a subnet manager does.
/// Nothing but tests includes this.
namespace verbatim::fabric::test {

using Path = std::vector<std::uint8_t>;  // the ports to leave through

/// "leaf0" with the hosts h0, h1, ... on its ports 1, 2, ... and one port more, which is free.
inline Topology star(const std::string& hosts) {
  std::string message;
  auto topology = tree_topology("1x" + hosts, LinkRate{}, message);
  EXPECT_TRUE(topology) << message;
  for (TopologyNode& node : topology->nodes) {
    if (node.kind == NodeKind::kSwitch) ++node.port_count;
  }
  return std::move(topology).value();
}

inline std::uint32_t index_of(const Topology& topology, std::string_view id) {
  const auto node = std::ranges::find_if(topology.nodes, [id](const TopologyNode& each) {
    return each.description.substr(0, id.size()) == id;
  });
  EXPECT_NE(node, topology.nodes.end()) << id;
  return static_cast<std::uint32_t>(node - topology.nodes.begin());
}

class TestFabric {
 public:
  static constexpr ClientId kClient{1};
  static constexpr wire::Lid kSwitchLid{100};

  explicit TestFabric(Topology topology, const FabricOptions& options = {})
      : fabric(std::move(topology), options) {
    manager_ = {.node = node("h0"), .port = 1};
    subnet_agent_ = open(manager_, {.qpn = wire::QpNumber::kSmi,
                                    .mgmt_class = wire::MgmtClass::kSubnetLidRouted,
                                    .class_version = 1,
                                    .methods = MethodMask().set(0x05)});
    directed_agent_ = open(manager_, {.qpn = wire::QpNumber::kSmi,
                                      .mgmt_class = wire::MgmtClass::kSubnetDirectedRoute,
                                      .class_version = 1});
  }

  [[nodiscard]] std::uint32_t node(std::string_view id) const {
    return index_of(fabric.topology(), id);
  }
  [[nodiscard]] PortEnd host(std::string_view id) const { return {.node = node(id), .port = 1}; }
  [[nodiscard]] PortEnd leaf(std::uint8_t port = 0) const {
    return {.node = node("leaf0"), .port = port};
  }
  [[nodiscard]] PortEnd manager() const { return manager_; }

  AgentId open(PortEnd port, const Registration& registration) {
    const auto agent = fabric.register_agent(port, kClient, registration);
    EXPECT_TRUE(agent);
    return *agent;
  }

  /// Lets all happen that is due without waiting.
  void advance_all_due() {
    while (fabric.next_due() && *fabric.next_due() <= now) fabric.advance(now);
  }
  void wait(Duration duration) {
    const Instant end = now + duration;
    while (fabric.next_due() && *fabric.next_due() <= end) {
      now = std::max(now, *fabric.next_due());
      fabric.advance(now);
    }
    now = end;
  }
  /// What a program got, unless it was the news that there is no answer.
  std::optional<UserMad> take(PortEnd port) {
    while (auto delivery = fabric.poll_delivery()) {
      if (delivery->port == port && delivery->delivery.mad.status == 0) {
        return std::move(delivery->delivery.mad);
      }
    }
    return std::nullopt;
  }

  /// A request along a directed route; empty: no answer came.
  std::optional<wire::Smp> ask(const wire::Smp& smp, const Path& path) {
    return ask_from(smp, wire::Lid::kPermissive, path);
  }
  /// The same, where the directed part begins at the switch with this LID.
  std::optional<wire::Smp> ask_from(wire::Smp smp, wire::Lid start, const Path& path) {
    smp.hop_count = static_cast<std::uint8_t>(path.size());
    std::size_t hop = 1;
    for (const std::uint8_t port : path) smp.initial_path[hop++] = std::byte{port};
    return exchange(smp, directed_agent_, start);
  }
  std::optional<wire::Smp> ask_lid(wire::Smp smp, wire::Lid lid) {
    smp.route = wire::SmpRoute::kLid;
    return exchange(smp, subnet_agent_, lid);
  }
  void send(PortEnd from, AgentId agent, const wire::Mad& mad, wire::Lid to) {
    UserMad user{.agent = agent,
                 .address = {.lid = to, .qpn = wire::QpNumber::kGsi, .qkey = wire::QKey::kGsi}};
    user.octets.resize(wire::Mad::kSize);
    mad.emit(std::span(user.octets).first<wire::Mad::kSize>());
    EXPECT_TRUE(fabric.post_send(now, from, kClient, std::move(user)));
    advance_all_due();
  }
  void send(const wire::Smp& smp, wire::Lid to) {
    UserMad user{.agent = subnet_agent_, .address = {.lid = to}};
    user.octets.resize(wire::Smp::kSize);
    smp.emit(std::span(user.octets).first<wire::Smp::kSize>());
    EXPECT_TRUE(fabric.post_send(now, manager_, kClient, std::move(user)));
    advance_all_due();
  }

  template <typename Attribute>
  void set(wire::SmpAttribute attribute, std::uint32_t modifier, const Attribute& value,
           const Path& path) {
    wire::Smp smp{
        .method = wire::MadMethod::kSet, .attribute = attribute, .attribute_modifier = modifier};
    value.emit(smp.data);
    const auto answer = ask(smp, path);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, wire::SmpStatus::kOk);
  }
  wire::PortInfo port_info(std::uint32_t port, const Path& path) {
    const auto answer =
        ask({.attribute = wire::SmpAttribute::kPortInfo, .attribute_modifier = port}, path);
    EXPECT_TRUE(answer);
    return answer ? wire::PortInfo::from(answer->data) : wire::PortInfo{};
  }
  void set_state(std::uint32_t port, wire::PortState state, const Path& path) {
    wire::PortInfo info = port_info(port, path);
    info.state = state;
    info.physical_state = wire::PortPhysicalState::kNoChange;
    set(wire::SmpAttribute::kPortInfo, port, info, path);
  }
  void set_lids(std::uint32_t port, wire::Lid lid, const Path& path) {
    wire::PortInfo info = port_info(port, path);
    info.lid = lid;
    info.sm_lid = wire::Lid{1};
    info.state = wire::PortState::kNoChange;
    info.physical_state = wire::PortPhysicalState::kNoChange;
    set(wire::SmpAttribute::kPortInfo, port, info, path);
  }
  /// Host hN gets LID N+1, the switch kSwitchLid; all ports become Active.
  void bring_up(std::uint8_t hosts) {
    wire::Smp table{.method = wire::MadMethod::kSet,
                    .attribute = wire::SmpAttribute::kLinearForwardingTable};
    table.data.fill(std::byte{0xff});
    for (std::uint8_t port = 1; port <= hosts; ++port) {
      table.data[port] = std::byte{port};
      port == 1 ? set_lids(1, wire::Lid{1}, {}) : set_lids(1, wire::Lid{port}, {1, port});
    }
    ASSERT_TRUE(ask(table, {1}));
    set(wire::SmpAttribute::kSwitchInfo, 0,
        wire::SwitchInfo{.linear_top = 101, .life_time = 18, .port_state_change = true}, {1});
    set_lids(0, kSwitchLid, {1});
    for (const auto state : {wire::PortState::kArmed, wire::PortState::kActive}) {
      for (std::uint8_t port = 1; port <= hosts; ++port) {
        set_state(port, state, {1});
        port == 1 ? set_state(1, state, {}) : set_state(1, state, {1, port});
      }
    }
  }

  Fabric fabric;
  Instant now{};

 private:
  std::optional<wire::Smp> exchange(const wire::Smp& smp, AgentId agent, wire::Lid to) {
    UserMad user{.agent = agent, .timeout = std::chrono::milliseconds(100), .address = {.lid = to}};
    user.octets.resize(wire::Smp::kSize);
    wire::Smp numbered = smp;
    numbered.transaction = wire::TransactionId{next_transaction_++};
    numbered.emit(std::span(user.octets).first<wire::Smp::kSize>());
    EXPECT_TRUE(fabric.post_send(now, manager_, kClient, std::move(user)));
    advance_all_due();
    auto answer = take_answer();
    if (answer) return answer;
    wait(std::chrono::milliseconds(200));
    return take_answer();
  }
  /// Traps that came meanwhile are lost.
  std::optional<wire::Smp> take_answer() {
    while (const auto user = take(manager_)) {
      const auto mad = wire::MadView::parse(user->octets);
      if (!mad || mad->method() != wire::MadMethod::kGetResp) continue;
      return wire::SmpView::parse(*mad)->value();
    }
    return std::nullopt;
  }

  PortEnd manager_{};
  AgentId subnet_agent_{};
  AgentId directed_agent_{};
  std::uint64_t next_transaction_ = 1;
};

}  // namespace verbatim::fabric::test
