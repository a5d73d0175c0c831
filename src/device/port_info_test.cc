// SPDX-License-Identifier: Apache-2.0
#include "device/port_info.h"

#include <gtest/gtest.h>

#include <set>

#include "device/test_interface.h"

namespace verbatim::device {
namespace {

using test::interface;
using test::ipv4;
using test::ipv6;
using test::loopback;
using Names = std::vector<std::string>;

Names interfaces_of(const std::vector<PortInfo>& ports) {
  Names names;
  for (const PortInfo& port : ports) names.push_back(port.interface);
  return names;
}

Names names_of(const std::vector<PortInfo>& ports) {
  Names names;
  for (const PortInfo& port : ports) names.push_back(port.name);
  return names;
}

std::vector<wire::Gid> gids_of(const PortInfo& port) {
  std::vector<wire::Gid> gids;
  for (const GidEntry& entry : port.gids) {
    EXPECT_EQ(entry.interface_index, port.interface_index);
    gids.push_back(entry.gid);
  }
  return gids;
}

/// The one port of one interface.
PortInfo port_of(const Interface& only) {
  const auto ports = ports_of({only}, {.devices = {{.interface = only.name, .name = {}}}});
  EXPECT_EQ(ports.size(), 1U);
  return ports.empty() ? PortInfo{} : ports[0];
}

TEST(PortInfo, LeavesEightyOctetsForHeadersAsLinuxDoes) {
  using enum wire::PathMtu;
  EXPECT_EQ(active_mtu_of(0), k256) << "never less";
  EXPECT_EQ(active_mtu_of(576), k256);
  EXPECT_EQ(active_mtu_of(591), k256);
  EXPECT_EQ(active_mtu_of(592), k512);
  EXPECT_EQ(active_mtu_of(1103), k512);
  EXPECT_EQ(active_mtu_of(1104), k1024);
  EXPECT_EQ(active_mtu_of(1500), k1024);
  EXPECT_EQ(active_mtu_of(2127), k1024);
  EXPECT_EQ(active_mtu_of(2128), k2048);
  EXPECT_EQ(active_mtu_of(4175), k2048);
  EXPECT_EQ(active_mtu_of(4176), k4096);
  EXPECT_EQ(active_mtu_of(9000), k4096);
  EXPECT_EQ(active_mtu_of(65536), k4096);
  EXPECT_EQ(active_mtu_of(0xffff'ffff), k4096);
}

TEST(PortInfo, TheRateIsTheLargestThatTheInterfaceReaches) {
  const auto product = [](std::uint32_t mbps) {
    const LinkRate rate = link_rate_of(mbps);
    const std::uint32_t lanes = rate.width == 2 ? 4 : 1;
    const std::uint32_t per_lane = rate.speed == 32 ? 25'000 : rate.speed == 4 ? 10'000 : 2'500;
    return std::pair(lanes * per_lane, std::stod(rate.text) * 1000);
  };
  for (const std::uint32_t mbps : {2'500U, 10'000U, 25'000U, 40'000U, 100'000U}) {
    EXPECT_EQ(product(mbps), std::pair(mbps, double(mbps)));
    EXPECT_EQ(product(mbps + 1), product(mbps));
  }
  EXPECT_EQ(product(400'000), product(100'000));
  EXPECT_EQ(product(100), product(2'500)) << "never less";
  EXPECT_EQ(product(0), product(10'000)) << "unknown";
}

TEST(PortInfo, TheGuidIsTheModifiedEui64OfTheMac) {
  Interface ethernet = interface("eth0", 2, 1);
  ethernet.mac = {0x52, 0x54, 0x00, 0xaa, 0xbb, 0xcc};
  const std::array<std::uint8_t, 8> expected = {0x50, 0x54, 0x00, 0xff, 0xfe, 0xaa, 0xbb, 0xcc};
  EXPECT_EQ(port_of(ethernet).guid, expected);
}

TEST(PortInfo, TheTableHasLinkLocalThenIpv4ThenIpv6) {
  Interface ethernet = interface("eth0", 2, 1);
  ethernet.mac = {0x02, 0xfc, 0x00, 0x00, 0x00, 0x01};
  const wire::Gid from_mac = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0xfc, 0, 0xff, 0xfe, 0, 0, 1}};
  const wire::Gid private_one = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 9, 8, 7, 6, 5, 4, 3, 2}};
  ethernet.ipv4 = {ipv4(192, 0, 2, 1), ipv4(10, 0, 0, 1)};
  ethernet.ipv6 = {ipv6(1), ipv6(2)};
  ethernet.link_local = {from_mac, private_one};
  const std::vector<wire::Gid> expected = {from_mac, ipv4(192, 0, 2, 1), ipv4(10, 0, 0, 1), ipv6(1),
                                           ipv6(2),  private_one};
  EXPECT_EQ(gids_of(port_of(ethernet)), expected);
}

TEST(PortInfo, AnInterfaceWithoutAMacHasAStableGuidOfItsOwn) {
  std::set<std::array<std::uint8_t, 8>> guids;
  for (const char* name : {"lo", "tun0", "tun1"}) {
    for (const std::uint32_t index : {1U, 2U, 77U}) {
      Interface without = interface(name, index, 1);
      without.mac.reset();
      const PortInfo port = port_of(without);
      EXPECT_EQ(port.guid, port_of(without).guid);
      EXPECT_EQ(port.guid[0] & 0x03, 0) << "neither universal nor a group";
      const wire::Gid first = port.gids.at(0).gid;
      EXPECT_EQ(first.octets[0], 0xfe);
      EXPECT_EQ(first.octets[1], 0x80);
      EXPECT_TRUE(std::equal(port.guid.begin(), port.guid.end(), first.octets.begin() + 8));
      guids.insert(port.guid);
    }
  }
  EXPECT_EQ(guids.size(), 9U);
  EXPECT_EQ(guids.count({}), 0U) << "fe80::0 is no address";
}

TEST(PortInfo, SaysWhatTheInterfaceSays) {
  Interface ethernet = interface("eth0", 5, 1);
  ethernet.mtu = 9000;
  ethernet.speed_mbps = 25'000;
  const PortInfo port = port_of(ethernet);
  EXPECT_EQ(port.interface, "eth0");
  EXPECT_EQ(port.interface_index, 5U);
  EXPECT_EQ(port.interface_mtu, 9000U);
  EXPECT_EQ(port.active_mtu, wire::PathMtu::k4096);
  EXPECT_EQ(port.speed_mbps, 25'000U);
  EXPECT_TRUE(port.is_up);
}

TEST(Ports, AreTheInterfacesThatAreFitTheDefaultRoutesFirst) {
  Interface bridge = interface("docker0", 3, 3);
  bridge.is_bridge = true;
  Interface down = interface("eth1", 4, 4);
  down.is_up = down.is_running = false;
  Interface unplugged = interface("eth2", 5, 5);
  unplugged.is_running = false;
  Interface routed = interface("wlan0", 6, 6);
  routed.has_default_route = true;
  Interface ipv6_only = test::interface_without_address("eth3", 8);
  ipv6_only.ipv6 = {ipv6(1)};
  const auto ports = ports_of({loopback(), interface("veth0", 2, 2), bridge, down, unplugged,
                               routed, test::interface_without_address("ifb0", 7), ipv6_only},
                              {});
  EXPECT_EQ(interfaces_of(ports), (Names{"wlan0", "veth0", "eth3"}));
  EXPECT_EQ(names_of(ports), (Names{"vb0", "vb1", "vb2"}));
}

TEST(Ports, AreTheLoopbackOnlyWhenThereIsNothingElse) {
  EXPECT_EQ(interfaces_of(ports_of({loopback()}, {})), Names{"lo"});
  EXPECT_EQ(interfaces_of(ports_of({loopback(), test::interface_without_address("eth0", 2)}, {})),
            Names{"lo"});
  EXPECT_EQ(interfaces_of(ports_of({loopback(), interface("eth0", 2, 1)}, {})), Names{"eth0"});
  Interface down = loopback();
  down.is_up = false;
  EXPECT_TRUE(ports_of({down}, {}).empty());
  EXPECT_TRUE(ports_of({}, {}).empty());
}

TEST(Ports, LinkLocalAloneIsNoAddress) {
  Interface ethernet = test::interface_without_address("eth0", 2);
  ethernet.link_local = {{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}}};
  EXPECT_TRUE(ports_of({ethernet}, {}).empty());
}

TEST(Ports, AreThoseNamedInThatOrder) {
  Interface down = interface("eth1", 3, 2);
  down.is_running = false;
  Interface bridge = interface("br0", 4, 3);
  bridge.is_bridge = true;
  const std::vector<Interface> known = {loopback(), interface("eth0", 2, 1), down, bridge};
  const auto ports = ports_of(known, {.devices = {{.interface = "eth1", .name = {}},
                                                  {.interface = "lo", .name = "vb0"},
                                                  {.interface = "br0", .name = {}}}});
  EXPECT_EQ(interfaces_of(ports), (Names{"eth1", "lo", "br0"}));
  EXPECT_EQ(names_of(ports), (Names{"vb1", "vb0", "vb2"})) << "numbers go around given names";
  EXPECT_FALSE(ports[0].is_up);
  EXPECT_TRUE(ports[1].is_up);
}

TEST(PortChange, EqualInterfacesAreNoChange) {
  const Interface ethernet = interface("eth0", 2, 1);
  EXPECT_FALSE(change_of(port_of(ethernet), {loopback(), ethernet}).is_any());
}

TEST(PortChange, AnInterfaceThatGoesTakesThePortWithIt) {
  const PortInfo before = port_of(interface("eth0", 2, 1));
  EXPECT_TRUE(change_of(before, {loopback()}).is_gone);
  EXPECT_TRUE(change_of(before, {interface("eth0", 3, 1)}).is_gone) << "another of the same name";
  EXPECT_TRUE(change_of(before, {interface("eth1", 2, 1)}).is_gone) << "or of the same index";
  const PortInfo after = changed(before, change_of(before, {}), {});
  EXPECT_FALSE(after.is_up);
  EXPECT_TRUE(after.gids.empty());
  EXPECT_EQ(after.name, before.name);
}

TEST(PortChange, ACableThatIsPulledTakesThePortDownAndNoMore) {
  Interface ethernet = interface("eth0", 2, 1);
  const PortInfo before = port_of(ethernet);
  ethernet.is_running = false;
  const PortChange down = change_of(before, {ethernet});
  EXPECT_TRUE(down.went_down);
  EXPECT_FALSE(down.is_gone || down.went_up || down.has_new_gids());
  const PortInfo without = changed(before, down, {ethernet});
  EXPECT_FALSE(without.is_up);
  ethernet.is_running = true;
  const PortChange up = change_of(without, {ethernet});
  EXPECT_TRUE(up.went_up);
  EXPECT_FALSE(up.went_down);
  EXPECT_TRUE(changed(without, up, {ethernet}).is_up);
}

TEST(PortChange, OtherGidsKeepTheirPlacesAndNewOnesFillHoles) {
  Interface ethernet = interface("eth0", 2, 1);
  ethernet.ipv4 = {ipv4(10, 0, 0, 1), ipv4(10, 0, 0, 2)};
  ethernet.ipv6 = {ipv6(1)};
  const PortInfo before = port_of(ethernet);
  const wire::Gid first = before.gids[0].gid;

  ethernet.ipv4 = {ipv4(10, 0, 0, 2)};
  const PortChange removal = change_of(before, {ethernet});
  EXPECT_EQ(removal.lost, std::vector{ipv4(10, 0, 0, 1)});
  EXPECT_TRUE(removal.gained.empty());
  const PortInfo with_hole = changed(before, removal, {ethernet});
  EXPECT_EQ(gids_of(with_hole), (std::vector{first, wire::Gid{}, ipv4(10, 0, 0, 2), ipv6(1)}));
  EXPECT_FALSE(with_hole.has({})) << "a hole is no address";
  EXPECT_FALSE(change_of(with_hole, {ethernet}).is_any());

  ethernet.ipv4 = {ipv4(10, 0, 0, 2), ipv4(10, 0, 0, 3), ipv4(10, 0, 0, 4)};
  const PortChange addition = change_of(with_hole, {ethernet});
  EXPECT_EQ(addition.gained, (std::vector{ipv4(10, 0, 0, 3), ipv4(10, 0, 0, 4)}));
  EXPECT_EQ(gids_of(changed(with_hole, addition, {ethernet})),
            (std::vector{first, ipv4(10, 0, 0, 3), ipv4(10, 0, 0, 2), ipv6(1), ipv4(10, 0, 0, 4)}));
}

TEST(PortChange, ANewMacLeavesTheGuidAndTheFirstGid) {
  Interface ethernet = interface("eth0", 2, 1);
  const PortInfo before = port_of(ethernet);
  ethernet.mac = {2, 3, 4, 5, 6, 7};
  const PortChange change = change_of(before, {ethernet});
  EXPECT_TRUE(change.has_new_mac);
  EXPECT_TRUE(change.lost.empty());
  const PortInfo after = changed(before, change, {ethernet});
  EXPECT_EQ(after.guid, before.guid);
  EXPECT_EQ(after.gids[0].gid, before.gids[0].gid);
  EXPECT_EQ(after.mac, ethernet.mac);
}

TEST(Ports, OfThisMachineAreConsistent) {
  const auto ports = find_ports({.devices = {{.interface = "lo", .name = {}}}});
  if (ports.empty()) GTEST_SKIP() << "no loopback interface with an address";
  ASSERT_EQ(ports.size(), 1U);
  EXPECT_EQ(ports[0].name, "vb0");
  EXPECT_EQ(ports[0].interface, "lo");
  EXPECT_GT(ports[0].interface_index, 0U);
  EXPECT_GT(ports[0].interface_mtu, 0U);
  ASSERT_GE(ports[0].gids.size(), 2U);
  for (const PortInfo& port : find_ports({})) {
    std::vector<wire::Gid> seen;
    for (const wire::Gid& gid : gids_of(port)) {
      EXPECT_EQ(std::count(seen.begin(), seen.end(), gid), 0) << "twice in the table";
      EXPECT_NE(gid, wire::Gid{});
      seen.push_back(gid);
    }
  }
}

}  // namespace
}  // namespace verbatim::device
