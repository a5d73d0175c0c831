// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/port.h"

#include <gtest/gtest.h>

namespace verbatim::fabric {
namespace {

constexpr wire::PKey kLimited{0x7fff};
constexpr wire::PKey kFull{0xffff};

TEST(Port, OfALimitedMemberTakesPacketsOfFullMembersOnly) {
  Port port;
  port.pkeys = {wire::PKey{}, kLimited};
  EXPECT_TRUE(port.is_in_partition(kFull));
  EXPECT_FALSE(port.is_in_partition(kLimited));
}

TEST(Port, NamesAPartitionForFullAndLimitedMembers) {
  Port port;
  port.pkeys = {wire::PKey{}, kLimited};
  EXPECT_TRUE(port.names_partition(kLimited));
  EXPECT_TRUE(port.names_partition(kFull));
  EXPECT_FALSE(port.names_partition(wire::PKey{0x8005}));
}

TEST(Port, AnEmptyEntryIsNoPartition) {
  Port port;
  port.pkeys = {wire::PKey{}};
  EXPECT_FALSE(port.names_partition(wire::PKey{}));
  EXPECT_FALSE(port.names_partition(wire::PKey{0x8000}));
}

}  // namespace
}  // namespace verbatim::fabric
