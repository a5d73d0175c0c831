// SPDX-License-Identifier: Apache-2.0
#include "host/vain_round.h"

#include <gtest/gtest.h>

#include <thread>

namespace verbatim::host {
namespace {

class VainRoundTest : public ::testing::Test {
 protected:
  void SetUp() override { VainRound::end(); }

  const int first_ = 1;  // stand for queues
  const int second_ = 2;
};

TEST_F(VainRoundTest, IsCompleteAtTheSecondPollOfTheOnlyQueue) {
  EXPECT_FALSE(VainRound::is_complete_at(&first_));
  EXPECT_TRUE(VainRound::is_complete_at(&first_));
  EXPECT_TRUE(VainRound::is_complete_at(&first_));
}

TEST_F(VainRoundTest, IsCompleteWhereItBeganWhenTheOthersWerePolled) {
  EXPECT_FALSE(VainRound::is_complete_at(&first_));
  EXPECT_FALSE(VainRound::is_complete_at(&second_));
  EXPECT_FALSE(VainRound::is_complete_at(&second_));
  EXPECT_TRUE(VainRound::is_complete_at(&first_));
}

TEST_F(VainRoundTest, BeginsAnewWhenAPollHasFoundSomething) {
  EXPECT_FALSE(VainRound::is_complete_at(&first_));
  VainRound::end();
  EXPECT_FALSE(VainRound::is_complete_at(&second_));
  EXPECT_FALSE(VainRound::is_complete_at(&first_));
  EXPECT_TRUE(VainRound::is_complete_at(&second_));
}

TEST_F(VainRoundTest, IsOfOneThread) {
  EXPECT_FALSE(VainRound::is_complete_at(&first_));
  std::thread([this] { EXPECT_FALSE(VainRound::is_complete_at(&first_)); }).join();
  EXPECT_TRUE(VainRound::is_complete_at(&first_));
}

}  // namespace
}  // namespace verbatim::host
