// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/service_id.h"

#include <gtest/gtest.h>

#include <string>

namespace verbatim::wire {
namespace {

TEST(ServiceId, HoldsThePortSpaceAndThePort) {
  EXPECT_EQ(service_id_of({PortSpace::kTcp, 7174}), ServiceId{0x0000'0000'0106'1c06});
  EXPECT_EQ(service_id_of({PortSpace::kUdp, 0xffff}), ServiceId{0x0000'0000'0111'ffff});
  EXPECT_EQ(service_id_of({PortSpace::kIb, 1}), ServiceId{0x0000'0000'013f'0001});
  EXPECT_EQ(service_id_of({PortSpace::kIpoib, 0}), ServiceId{0x0000'0000'0002'0000});
}

TEST(ServiceId, GivesThePortBack) {
  for (const auto space : {PortSpace::kIpoib, PortSpace::kTcp, PortSpace::kUdp, PortSpace::kIb}) {
    for (unsigned port = 0; port <= 0xffff; ++port) {
      const ServicePort service{space, static_cast<std::uint16_t>(port)};
      ASSERT_EQ(service_port_of(service_id_of(service)), service);
    }
  }
}

TEST(ServiceId, OutsideOfThePortSpacesHasNoPort) {
  for (const std::uint64_t id : {std::uint64_t{0}, std::uint64_t{0x1'0000}, std::uint64_t{0x3'0001},
                                 std::uint64_t{0x0107'0001}, std::uint64_t{0x1000'0106'1c06},
                                 std::uint64_t{0x8000'0000'0106'1c06}, ~std::uint64_t{0}}) {
    EXPECT_FALSE(service_port_of(ServiceId{id})) << id;
  }
}

TEST(PortSpace, EachHasItsName) {
  EXPECT_EQ(name_of(PortSpace::kIpoib), std::string("IPOIB"));
  EXPECT_EQ(name_of(PortSpace::kTcp), std::string("TCP"));
  EXPECT_EQ(name_of(PortSpace::kUdp), std::string("UDP"));
  EXPECT_EQ(name_of(PortSpace::kIb), std::string("IB"));
  EXPECT_EQ(name_of(PortSpace{1}), std::string("?"));
}

}  // namespace
}  // namespace verbatim::wire
