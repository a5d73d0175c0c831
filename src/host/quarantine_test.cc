// SPDX-License-Identifier: Apache-2.0
#include "host/quarantine.h"

#include <gtest/gtest.h>

namespace verbatim::host {
namespace {

class QuarantineTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(segment_.open(1 << 20).ok()); }

  Quarantine::Stray stray(bool& gone, std::vector<const std::byte*> touches) {
    return {.has_gone = [&gone] { return gone; }, .touches = std::move(touches)};
  }
  /// Whether the next block of this size is that one.
  bool comes_next(std::span<std::byte> block) {
    const auto next = segment_.take(block.size());
    return next.data() == block.data();
  }

  Segment segment_;
  Quarantine quarantine_{segment_};
};

TEST_F(QuarantineTest, ABlockThatNoStrayTouchesIsUsedAgainAtOnce) {
  bool gone = false;
  const auto block = segment_.take(256);
  const auto other = segment_.take(256);
  quarantine_.add(stray(gone, {other.data()}));
  quarantine_.give_back(block);
  EXPECT_EQ(quarantine_.held_count(), 0U);
  EXPECT_TRUE(comes_next(block));
}

TEST_F(QuarantineTest, WhatAStrayTouchesIsNotUsedBeforeItHasGone) {
  bool gone = false;
  const auto block = segment_.take(256);
  quarantine_.add(stray(gone, {block.data()}));
  quarantine_.give_back(block);
  quarantine_.look();
  EXPECT_EQ(quarantine_.held_count(), 1U);
  EXPECT_FALSE(comes_next(block));
  gone = true;
  quarantine_.look();
  EXPECT_TRUE(quarantine_.is_empty());
  EXPECT_TRUE(comes_next(block));
}

TEST_F(QuarantineTest, ABlockThatSeveralTouchWaitsForTheLast) {
  bool first_gone = false;
  bool second_gone = false;
  const auto block = segment_.take(64);
  quarantine_.add(stray(first_gone, {block.data()}));
  quarantine_.add(stray(second_gone, {block.data()}));
  quarantine_.give_back(block);
  first_gone = true;
  quarantine_.look();
  EXPECT_EQ(quarantine_.held_count(), 1U);
  EXPECT_FALSE(comes_next(block));
  second_gone = true;
  quarantine_.look();
  EXPECT_TRUE(comes_next(block));
}

TEST_F(QuarantineTest, OnGoneIsCalledOnceAndBeforeTheBlockIsUsedAgain) {
  bool gone = false;
  int calls = 0;
  const auto block = segment_.take(64);
  auto leaving = stray(gone, {block.data()});
  leaving.on_gone = [&] {
    ++calls;
    EXPECT_FALSE(comes_next(block));
  };
  quarantine_.add(std::move(leaving));
  quarantine_.give_back(block);
  quarantine_.look();
  EXPECT_EQ(calls, 0);
  gone = true;
  quarantine_.look();
  quarantine_.look();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace verbatim::host
