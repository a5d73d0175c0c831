// SPDX-License-Identifier: Apache-2.0
#include "loop/late_receive.h"

#include <gtest/gtest.h>

namespace verbatim::loop {
namespace {

constexpr Instant kStart = Instant{} + std::chrono::seconds(1);

TEST(LateReceive, IsWaitedForOnceAndNotForLong) {
  LateReceive late;
  EXPECT_TRUE(late.is_worth_waiting_for(7, kStart));
  EXPECT_TRUE(late.is_worth_waiting_for(7, kStart + LateReceive::kPatience / 2));
  EXPECT_FALSE(late.is_worth_waiting_for(7, kStart + LateReceive::kPatience));
  EXPECT_FALSE(late.is_worth_waiting_for(7, kStart + LateReceive::kPatience * 1000));
}

TEST(LateReceive, IsWaitedForAnewByAProgramThatPosts) {
  LateReceive late;
  EXPECT_TRUE(late.is_worth_waiting_for(7, kStart));
  EXPECT_FALSE(late.is_worth_waiting_for(7, kStart + LateReceive::kPatience));
  const Instant later = kStart + LateReceive::kPatience * 2;
  EXPECT_TRUE(late.is_worth_waiting_for(8, later));
  EXPECT_FALSE(late.is_worth_waiting_for(8, later + LateReceive::kPatience));
}

}  // namespace
}  // namespace verbatim::loop
