// SPDX-License-Identifier: Apache-2.0
#include "device/quota.h"

#include <gtest/gtest.h>

namespace verbatim::device {
namespace {

TEST(Quota, NoMoreThanTheLimitAreTaken) {
  Quota quota(2);
  EXPECT_TRUE(quota.take());
  EXPECT_TRUE(quota.take());
  EXPECT_EQ(quota.take().error(), Errc::kNoMemory);
  EXPECT_EQ(quota.take().error(), Errc::kNoMemory);  // a refusal takes nothing
  quota.give_back();
  EXPECT_TRUE(quota.take());
  EXPECT_EQ(quota.take().error(), Errc::kNoMemory);
}

TEST(QuotaDeathTest, WhatWasNotTakenCannotBeGivenBack) {
  Quota quota(1);
  EXPECT_DEATH(quota.give_back(), "taken_ > 0");
}

TEST(Quota, ADeviceMayHaveWhatItSays) {
  Quotas quotas;
  const auto count = [](Quota& quota) {
    std::uint32_t taken = 0;
    while (quota.take()) ++taken;
    return taken;
  };
  EXPECT_EQ(count(quotas.completion_queues), kMaxCompletionQueues);
  EXPECT_EQ(count(quotas.shared_queues), kMaxSharedQueues);
  EXPECT_EQ(count(quotas.address_handles), kMaxAddressHandles);
}

}  // namespace
}  // namespace verbatim::device
