// SPDX-License-Identifier: Apache-2.0
#include "device/fabric_ports.h"

#include <gtest/gtest.h>

#include "device/fabric_network.h"

namespace verbatim::device {
namespace {

/// A node with an active port, which has four LIDs.
host::NodeView node() {
  host::NodeView view{.node = 5, .state = {}};
  view.state.node_guid = 0x0102'0304'0506'0708;
  host::FabricPortState& port = view.state.ports[1];
  port.guid = 0x12;
  port.gid_prefix = 0xfe80'0000'0000'0000;
  port.capabilities = 0x0251'0868;
  port.rate_mbps = 100'000;
  port.lid = 8;
  port.sm_lid = 3;
  port.lmc = 2;
  port.state = 4;
  port.physical_state = 5;
  port.width = 2;
  port.mtu = 5;
  port.mtu_max = 5;
  port.gid_count = 2;
  port.interface_ids[0] = 0x12;
  port.pkey_count = 2;
  port.pkeys[0] = 0xffff;
  port.pkeys[1] = 0x8001;
  return view;
}

PortInfo port() { return fabric_port_of("h0", node()); }

wire::Gid own_gid() {
  return {.octets = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12}};
}

TEST(FabricPorts, ShowWhatTheSubnetManagerHasWritten) {
  const PortInfo made = port();
  EXPECT_EQ(made.name, "vib0");
  EXPECT_EQ(made.guid[0], 1);
  EXPECT_EQ(made.guid[7], 8);
  EXPECT_TRUE(made.is_up);
  EXPECT_EQ(made.active_mtu, wire::PathMtu::k4096);
  ASSERT_EQ(made.gids.size(), 2U);
  EXPECT_EQ(made.gids[0].gid, own_gid());
  EXPECT_EQ(made.gids[1].gid, wire::Gid{}) << "no GUID, no GID";
  ASSERT_TRUE(made.fabric);
  EXPECT_EQ(made.fabric->lid, wire::Lid{8});
  EXPECT_EQ(made.fabric->sm_lid, wire::Lid{3});
  EXPECT_EQ(made.pkeys(), (std::vector{wire::PKey{0xffff}, wire::PKey{0x8001}}));
}

TEST(FabricPorts, AreDownUntilTheyAreActive) {
  host::NodeView view = node();
  view.state.ports[1].state = 3;  // Armed
  EXPECT_FALSE(fabric_port_of("h0", view).is_up);
}

/// What changes when `change` is done to the state of the port.
template <typename Change>
PortChange after(Change&& change) {
  host::NodeView view = node();
  change(view.state.ports[1]);
  return fabric_change_of(port(), fabric_port_of("h0", view));
}

TEST(FabricPorts, TellWhatHasChanged) {
  EXPECT_FALSE(after([](auto&) {}).is_any());
  EXPECT_TRUE(after([](auto& state) { state.lid = 12; }).has_new_lid);
  EXPECT_TRUE(after([](auto& state) { state.lmc = 0; }).has_new_lid);
  EXPECT_TRUE(after([](auto& state) { state.sm_lid = 4; }).has_new_sm);
  EXPECT_TRUE(after([](auto& state) { state.pkeys[1] = 0x8002; }).has_new_pkeys);
  EXPECT_TRUE(after([](auto& state) { ++state.reregister_requests; }).wants_reregistration);
  EXPECT_TRUE(after([](auto& state) { state.state = 1; }).went_down);
  EXPECT_TRUE(after([](auto& state) { state.mtu = 4; }).has_new_details);
  EXPECT_TRUE(after([](auto& state) { ++state.pkey_violations; }).has_new_details);
  const PortChange gids = after([](auto& state) { state.interface_ids[1] = 0x34; });
  EXPECT_EQ(gids.gained.size(), 1U);
  EXPECT_FALSE(after([](auto& state) { state.lid = 12; }).has_new_sm);
}

TEST(FabricPorts, AnOutageBetweenTwoLooksIsSeen) {
  const PortChange flap = after([](auto& state) { ++state.outages; });
  EXPECT_TRUE(flap.went_down);
  EXPECT_TRUE(flap.went_up);
  const PortChange down = after([](auto& state) {
    ++state.outages;
    state.state = 2;
  });
  EXPECT_TRUE(down.went_down);
  EXPECT_FALSE(down.went_up);
}

TEST(FabricPorts, AreGoneWithTheirFabric) {
  PortInfo gone = port();
  gone.fabric.reset();
  const PortChange change = fabric_change_of(port(), gone);
  EXPECT_TRUE(change.is_gone);
  const PortInfo after = changed(port(), change, {});
  EXPECT_FALSE(after.is_up);
  EXPECT_EQ(after.name, "vib0");
  ASSERT_TRUE(after.fabric) << "it is still the port of an InfiniBand adapter";
  EXPECT_EQ(after.fabric->state, 1) << "Down";
  EXPECT_EQ(after.fabric->physical_state, 3) << "Disabled";
}

TEST(FabricNetwork, ALocalPathHasLidsAndALevel) {
  const FabricNetwork network;
  const auto path = network.path_to(
      port(),
      {.is_global = false, .lid = wire::Lid{20}, .level = wire::ServiceLevel{3}, .path_bits = 2});
  ASSERT_TRUE(path);
  EXPECT_EQ(path->local.source, wire::Lid{10});
  EXPECT_EQ(path->local.destination, wire::Lid{20});
  EXPECT_EQ(path->local.level, wire::ServiceLevel{3});
  EXPECT_EQ(path->destination, wire::Gid{});
}

TEST(FabricNetwork, OnlyThePathBitsOfThePortCount) {
  const FabricNetwork network;
  const auto source_of = [&](std::uint8_t bits) {
    return network.path_to(port(), {.is_global = false, .lid = wire::Lid{20}, .path_bits = bits})
        ->local.source;
  };
  EXPECT_EQ(source_of(3), wire::Lid{11});
  EXPECT_EQ(source_of(4), wire::Lid{8}) << "the LMC is 2";
  EXPECT_EQ(source_of(0x7d), wire::Lid{9});
}

TEST(FabricNetwork, AGlobalPathHasGidsToo) {
  const FabricNetwork network;
  const wire::Gid other{.octets = {0xfe, 0x80, 9}};
  const auto path =
      network.path_to(port(), {.gid_index = 0, .gid = other, .hop_limit = 7, .lid = wire::Lid{20}});
  ASSERT_TRUE(path);
  EXPECT_EQ(path->source, own_gid());
  EXPECT_EQ(path->destination, other);
  EXPECT_EQ(path->hop_limit, 7);
  EXPECT_EQ(path->local.source, wire::Lid{8});
}

TEST(FabricNetwork, RefusesWhatNoPacketCanReach) {
  const FabricNetwork network;
  const auto is_refused = [&](const PortInfo& from, const Destination& to) {
    const auto path = network.path_to(from, to);
    return !path && path.error() == Errc::kInvalidArgument;
  };
  const Destination good{.is_global = false, .lid = wire::Lid{20}};
  EXPECT_FALSE(is_refused(port(), good));
  EXPECT_TRUE(is_refused(port(), {.is_global = false})) << "no LID";
  EXPECT_TRUE(is_refused(port(), {.gid_index = 1, .gid = own_gid(), .lid = wire::Lid{20}}));
  EXPECT_TRUE(is_refused(port(), {.gid_index = 0, .lid = wire::Lid{20}})) << "no GID";
  PortInfo without_lid = port();
  without_lid.fabric->lid = wire::Lid::kReserved;
  EXPECT_TRUE(is_refused(without_lid, good));
}

}  // namespace
}  // namespace verbatim::device
