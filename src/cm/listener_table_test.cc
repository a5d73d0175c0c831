// SPDX-License-Identifier: Apache-2.0
#include "cm/listener_table.h"

#include <gtest/gtest.h>

#include "cm/test_agent.h"

namespace verbatim::cm::test {
namespace {

using wire::ServiceId;

TEST(ListenerTable, AServiceHasOneListenerPerAddress) {
  ListenerTable table(10);
  const auto any = table.add({.service_id = kService});
  ASSERT_TRUE(any);
  EXPECT_EQ(table.add({.service_id = kService}).error(), Errc::kAddressInUse);
  const auto here = table.add({.service_id = kService, .address = gid(1)});
  ASSERT_TRUE(here);
  EXPECT_EQ(table.add({.service_id = kService, .address = gid(1)}).error(), Errc::kAddressInUse);
  EXPECT_EQ(table.match(kService, gid(1))->id, *here) << "the narrower one goes first";
  EXPECT_EQ(table.match(kService, gid(2))->id, *any);
  EXPECT_TRUE(table.remove(*any));
  EXPECT_FALSE(table.remove(*any));
  EXPECT_EQ(table.match(kService, gid(2)), nullptr);
  EXPECT_EQ(table.match(ServiceId{0x1061235}, gid(1)), nullptr);
}

TEST(ListenerTable, AMaskTakesManyServices) {
  ListenerTable table(10);
  const auto range = table.add({.service_id = ServiceId{0x1060000}, .service_mask = ~0xffffULL});
  ASSERT_TRUE(range);
  EXPECT_EQ(table.match(ServiceId{0x1061234}, gid(1))->id, *range);
  EXPECT_EQ(table.match(ServiceId{0x1111234}, gid(1)), nullptr);
  EXPECT_EQ(table.add({.service_id = kService}).error(), Errc::kAddressInUse);
  EXPECT_TRUE(table.add({.service_id = ServiceId{0x1111234}}));
}

TEST(ListenerTable, ThereAreLimits) {
  ListenerTable table(1);
  EXPECT_EQ(table.add({.service_id = kService, .backlog = 0}).error(), Errc::kInvalidArgument);
  ASSERT_TRUE(table.add({.service_id = kService}));
  EXPECT_EQ(table.add({.service_id = ServiceId{1}}).error(), Errc::kNoMemory);
}

}  // namespace
}  // namespace verbatim::cm::test
