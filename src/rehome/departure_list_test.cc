// SPDX-License-Identifier: Apache-2.0
#include "rehome/departure_list.h"

#include <gtest/gtest.h>

#include <memory>

namespace verbatim::rehome {
namespace {

constexpr Departure departure_at(std::uintptr_t begin) {
  return {.range = {.begin = begin, .end = begin + 0x1000}, .is_moved_away = false};
}

class DepartureListTest : public ::testing::Test {
 protected:
  std::unique_ptr<DepartureList> list_ = std::make_unique<DepartureList>();
  Departure taken_{};
  bool has_missed_ = false;
};

TEST_F(DepartureListTest, DeparturesAreTakenInTheirOrder) {
  list_->put(departure_at(0x1000));
  list_->put({.range = {.begin = 0x5000, .end = 0x6000}, .is_moved_away = true});
  ASSERT_TRUE(list_->take(taken_, has_missed_));
  EXPECT_EQ(taken_.range.begin, 0x1000U);
  EXPECT_FALSE(taken_.is_moved_away);
  ASSERT_TRUE(list_->take(taken_, has_missed_));
  EXPECT_EQ(taken_.range.begin, 0x5000U);
  EXPECT_TRUE(taken_.is_moved_away);
  EXPECT_FALSE(list_->take(taken_, has_missed_));
  EXPECT_FALSE(has_missed_);
}

TEST_F(DepartureListTest, AFullListLosesNewDeparturesAndSaysSoOnce) {
  for (std::uintptr_t i = 0; i <= DepartureList::kMax; ++i) list_->put(departure_at(i << 12));
  ASSERT_TRUE(list_->take(taken_, has_missed_));
  EXPECT_TRUE(has_missed_);
  EXPECT_EQ(taken_.range.begin, 0U) << "the oldest one is kept";
  has_missed_ = false;
  std::size_t left = 0;
  while (list_->take(taken_, has_missed_)) ++left;
  EXPECT_EQ(left, DepartureList::kMax - 1);
  EXPECT_FALSE(has_missed_);
}

TEST_F(DepartureListTest, OnlyLaterDeparturesOfTheRangeCount) {
  list_->put(departure_at(0x1000));
  const auto moment = list_->now();
  const Range range{.begin = 0x1800, .end = 0x4000};
  EXPECT_FALSE(list_->may_have_left_since(moment, range)) << "it was before";
  list_->put(departure_at(0x4000));
  EXPECT_FALSE(list_->may_have_left_since(moment, range)) << "it begins where the range ends";
  list_->put(departure_at(0x3000));
  EXPECT_TRUE(list_->may_have_left_since(moment, range));
}

TEST_F(DepartureListTest, ATakenDepartureStillCounts) {
  const auto moment = list_->now();
  list_->put(departure_at(0x1000));
  ASSERT_TRUE(list_->take(taken_, has_missed_));
  EXPECT_TRUE(list_->may_have_left_since(moment, taken_.range));
}

TEST_F(DepartureListTest, WhatIsNotInTheListAnyMoreMayHaveLeft) {
  const Range other{.begin = std::uintptr_t{1} << 40, .end = (std::uintptr_t{1} << 40) + 1};
  const auto moment = list_->now();
  for (std::uintptr_t i = 0; i < DepartureList::kMax; ++i) {
    EXPECT_FALSE(list_->may_have_left_since(moment, other));
    list_->put(departure_at(i << 12));
    ASSERT_TRUE(list_->take(taken_, has_missed_));
  }
  EXPECT_TRUE(list_->may_have_left_since(moment, other));
}

TEST_F(DepartureListTest, ALostDepartureMayHaveBeenAnyRange) {
  const Range other{.begin = std::uintptr_t{1} << 40, .end = (std::uintptr_t{1} << 40) + 1};
  for (std::uintptr_t i = 0; i < DepartureList::kMax; ++i) list_->put(departure_at(i << 12));
  const auto moment = list_->now();
  EXPECT_FALSE(list_->may_have_left_since(moment, other));
  list_->put(departure_at(0));
  EXPECT_TRUE(list_->may_have_left_since(moment, other));
  while (list_->take(taken_, has_missed_)) continue;
  EXPECT_TRUE(list_->may_have_left_since(moment, other)) << "also after the loss was reported";
  EXPECT_FALSE(list_->may_have_left_since(list_->now(), other));
}

TEST_F(DepartureListTest, AChildHasNoneOfItsParent) {
  list_->put(departure_at(0x1000));
  list_->forget();
  EXPECT_FALSE(list_->take(taken_, has_missed_));
  EXPECT_FALSE(has_missed_);
}

}  // namespace
}  // namespace verbatim::rehome
