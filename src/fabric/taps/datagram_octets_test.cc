// SPDX-License-Identifier: Apache-2.0
#include "fabric/taps/datagram_octets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "wire/headers/native_packet.h"
#include "wire/headers/test_octets.h"

namespace verbatim::fabric {
namespace {

using wire::test::hex;
using wire::test::Octets;

Octets octets_of(const ManagementPacket& packet, wire::VirtualLane lane) {
  const DatagramOctets written(packet, lane);
  return {written.octets().begin(), written.octets().end()};
}

/// dr-smp-get-nodeinfo-hop0 of tests/golden/ib_native.json.
TEST(DatagramOctets, ADatagramOfSubnetManagementIsAsAnotherImplementationWritesIt) {
  ManagementPacket packet{.source = wire::Lid::kPermissive, .destination = wire::Lid::kPermissive};
  const Octets start =
      hex("0181010100000000000000000000123400110000000000000000000000000000ffffffff");
  std::ranges::copy(start, packet.mad.begin());
  Octets golden =
      hex("f002ffff0048ffff6400ffff000000000000000000000000000000000181010100000000000000000000"
          "123400110000000000000000000000000000ffffffff");
  golden.resize(8 + 12 + 8 + 256);
  for (const auto octet : hex("fcb55513")) golden.push_back(octet);
  EXPECT_EQ(octets_of(packet, wire::VirtualLane::kManagement), golden);
}

TEST(DatagramOctets, ADatagramWithAGlobalRouteHasItInFrontOfTheTransport) {
  ManagementPacket packet{.source = wire::Lid{3},
                          .destination = wire::Lid{7},
                          .level = wire::ServiceLevel{2},
                          .source_qp = wire::QpNumber::kGsi,
                          .dest_qp = wire::QpNumber::kGsi,
                          .pkey = wire::PKey{0x8001},
                          .qkey = wire::QKey::kGsi,
                          .global_route = GlobalRoute{.flow_label = 9, .hop_limit = 5}};
  packet.global_route->destination.octets[15] = 0x42;
  packet.mad.fill(std::byte{0x5a});
  Octets octets = octets_of(packet, wire::VirtualLane{1});
  octets.resize(octets.size() + wire::kVcrcSize);
  const auto native = wire::NativePacketView::parse(octets);
  ASSERT_TRUE(native);
  EXPECT_EQ(native->lrh().lane(), wire::VirtualLane{1});
  EXPECT_EQ(native->lrh().level(), wire::ServiceLevel{2});
  EXPECT_EQ(native->lrh().source(), wire::Lid{3});
  ASSERT_TRUE(native->grh());
  EXPECT_EQ(native->grh()->destination(), packet.global_route->destination);
  EXPECT_EQ(native->grh()->flow_label(), 9U);
  EXPECT_EQ(native->grh()->hop_limit(), 5U);
  // Opcode 0x64, P_Key, QP1; Q_Key and source QP; then the datagram.
  const auto transport = native->transport();
  EXPECT_EQ(Octets(transport.begin(), transport.begin() + 20),
            hex("6400800100000001 00000000 80010000 00000001"));
  EXPECT_TRUE(std::ranges::equal(transport.subspan(20, 256), packet.mad));
  EXPECT_TRUE(wire::is_icrc(transport.last<4>(), wire::icrc_of_native(native->covered_by_icrc())));
}

}  // namespace
}  // namespace verbatim::fabric
