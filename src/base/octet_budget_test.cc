// SPDX-License-Identifier: Apache-2.0
#include "base/octet_budget.h"

#include <gtest/gtest.h>

#include <utility>

namespace verbatim {
namespace {

TEST(OctetBudget, GivesOutNoMoreThanItsLimit) {
  OctetBudget budget(100);
  HeldOctets one(budget);
  HeldOctets two(budget);
  EXPECT_TRUE(one.hold(60));
  EXPECT_FALSE(two.hold(41));
  EXPECT_EQ(two.octets(), 0);
  EXPECT_TRUE(two.hold(40));
  EXPECT_EQ(budget.held(), 100);
  EXPECT_FALSE(one.hold(61));
  EXPECT_EQ(one.octets(), 60);
  EXPECT_TRUE(one.hold(10));
  EXPECT_EQ(budget.held(), 50);
}

TEST(OctetBudget, WhatEndsGivesBack) {
  OctetBudget budget(100);
  {
    HeldOctets held(budget);
    ASSERT_TRUE(held.hold(100));
    HeldOctets moved(std::move(held));
    EXPECT_EQ(moved.octets(), 100);
    EXPECT_EQ(budget.held(), 100);
    HeldOctets other(budget);
    other = std::move(moved);
    EXPECT_EQ(other.octets(), 100);
  }
  EXPECT_EQ(budget.held(), 0);
}

TEST(OctetBudget, APartTakesFromTheWhole) {
  OctetBudget whole(100);
  OctetBudget part(80, &whole);
  OctetBudget other(80, &whole);
  HeldOctets one(part);
  HeldOctets two(other);
  EXPECT_FALSE(part.has(81));
  EXPECT_FALSE(one.hold(81));
  EXPECT_EQ(whole.held(), 0);
  EXPECT_TRUE(one.hold(70));
  EXPECT_FALSE(other.has(31));
  EXPECT_FALSE(two.hold(31));
  EXPECT_EQ(other.held(), 0);
  EXPECT_TRUE(two.hold(30));
  one.release();
  EXPECT_EQ(whole.held(), 30);
}

TEST(OctetBudget, WithoutABudgetNothingIsHeld) {
  HeldOctets none;
  EXPECT_TRUE(none.hold(0));
  EXPECT_FALSE(none.hold(1));
}

}  // namespace
}  // namespace verbatim
