// SPDX-License-Identifier: Apache-2.0
#include "fabric/management_packet.h"

#include <gtest/gtest.h>

namespace verbatim::fabric {
namespace {

TEST(ManagementPacket, QueuePairZeroIsSubnetManagement) {
  EXPECT_TRUE(ManagementPacket{.dest_qp = wire::QpNumber::kSmi}.is_subnet_management());
  EXPECT_FALSE(ManagementPacket{.dest_qp = wire::QpNumber::kGsi}.is_subnet_management());
}

TEST(ManagementPacket, OctetsThatAreNoDatagramHaveNoView) {
  ManagementPacket packet;
  EXPECT_FALSE(packet.view());
  wire::Mad{.header = {.mgmt_class = wire::MgmtClass::kPerformance}}.emit(packet.mad);
  ASSERT_TRUE(packet.view());
  EXPECT_EQ(packet.view()->mgmt_class(), wire::MgmtClass::kPerformance);
}

}  // namespace
}  // namespace verbatim::fabric
