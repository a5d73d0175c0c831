// SPDX-License-Identifier: Apache-2.0
#include "connect/subnet_group.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"
#include "wire/management/sa_message.h"

namespace verbatim::connect {
namespace {

using wire::PortSpace;
constexpr wire::PKey kKey{0x8123};

IpEndpoint ipv4(std::string_view octets) {
  IpEndpoint made;
  made.address = wire::test::gid(octets);
  return made;
}
IpEndpoint ipv6(std::string_view octets) {
  IpEndpoint made = ipv4(octets);
  made.is_ipv4 = false;
  return made;
}

// The expected values follow RFC 4391 and Linux: ip_ib_mc_map(), ipv6_ib_mc_map(), cma_set_mgid().
TEST(GroupGid, OfAnIpv4AddressHasItsLower28Bits) {
  const auto group = ipv4("00000000000000000000ffffe1020304");
  EXPECT_EQ(group_gid_of(group, PortSpace::kIpoib, kKey),
            wire::test::gid("ff12401b812300000000000001020304"));
  EXPECT_EQ(group_gid_of(group, PortSpace::kUdp, kKey),
            wire::test::gid("ff124001812300000000000001020304"));
}

TEST(GroupGid, OfAnIpv6AddressHasItsLower80Bits) {
  const auto group = ipv6("ff020000000011223344556677889900");
  EXPECT_EQ(group_gid_of(group, PortSpace::kIpoib, kKey),
            wire::test::gid("ff12601b812311223344556677889900"));
  EXPECT_EQ(group_gid_of(group, PortSpace::kUdp, kKey),
            wire::test::gid("ff126001812311223344556677889900"));
}

TEST(GroupGid, AGidStaysWhatItIs) {
  const auto given = ipv6("ff12a01b0000000000000000000000aa");
  EXPECT_EQ(group_gid_of(given, PortSpace::kUdp, kKey), given.address);
  auto ib = ipv6("ff120000000000000000000000000001");
  ib.ib = IbPart{};
  EXPECT_EQ(group_gid_of(ib, PortSpace::kUdp, kKey), ib.address);
}

TEST(GroupGid, OfTheWildcardAddressIsLeftToTheSubnet) {
  EXPECT_EQ(group_gid_of(IpEndpoint::any(true), PortSpace::kUdp, kKey), wire::Gid{});
}

TEST(GroupGid, OfAllPortsIsTheBroadcastGroupOfIpoib) {
  EXPECT_EQ(broadcast_gid_of(wire::PKey::kDefault),
            wire::test::gid("ff12401bffff000000000000ffffffff"));
}

SubnetGroup joined() {
  SubnetGroup group;
  group.record = {.group = wire::test::gid("ff124001ffff00000000000001020304"),
                  .port_gid = wire::test::gid("fe800000000000000000000000000001"),
                  .qkey = wire::QKey{0x01234567},
                  .pkey = wire::PKey::kDefault,
                  .join_state = wire::JoinState::kFullMember};
  return group;
}

wire::MulticastRecord record_of(const MadOctets& octets, wire::MadMethod method) {
  const auto mad = wire::MadView::parse(octets);
  EXPECT_TRUE(mad);
  EXPECT_EQ(mad->method(), method);
  const auto record = wire::record_in<wire::MulticastRecord>(*mad);
  EXPECT_TRUE(record);
  return *record;
}

std::uint64_t mask_of(const MadOctets& octets) {
  return wire::SaHeader::from(octets).component_mask;
}

TEST(SubnetGroup, AsksWhatLinuxAsks) {
  const auto join = join_of(joined(), PortSpace::kUdp);
  EXPECT_EQ(record_of(join, wire::MadMethod::kSet), joined().record);
  EXPECT_EQ(mask_of(join), 0x130c7U);  // IB_SA_MCMEMBER_REC_* of cma_join_ib_multicast()
  EXPECT_EQ(mask_of(join_of(joined(), PortSpace::kIpoib)), 0x173f7U);
  const auto leave = leave_of(joined());
  EXPECT_EQ(record_of(leave, wire::MadMethod::kDelete), joined().record);
  EXPECT_EQ(mask_of(leave), 0x10003U);
}

TEST(SubnetGroup, TakesTheParametersOfItsPartition) {
  const wire::MulticastRecord broadcast{.qkey = wire::QKey{0xb1b},
                                        .mtu = wire::PathMtu::k2048,
                                        .traffic_class = 7,
                                        .rate = 3,
                                        .level = wire::ServiceLevel{4},
                                        .flow_label = 9,
                                        .hop_limit = 5};
  auto record = joined().record;
  take_parameters(broadcast, PortSpace::kUdp, record);
  EXPECT_EQ(record.level, wire::ServiceLevel{4});
  EXPECT_EQ(record.flow_label, 9U);
  EXPECT_EQ(record.traffic_class, 7);
  EXPECT_EQ(record.qkey, wire::QKey{0x01234567});
  EXPECT_EQ(record.rate, 0);
  take_parameters(broadcast, PortSpace::kIpoib, record);
  EXPECT_EQ(record.qkey, wire::QKey{0xb1b});
  EXPECT_EQ(record.mtu, wire::PathMtu::k2048);
  EXPECT_EQ(record.rate, 3);
  EXPECT_EQ(record.hop_limit, 5);
}

}  // namespace
}  // namespace verbatim::connect
