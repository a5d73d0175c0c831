// SPDX-License-Identifier: Apache-2.0
#include "base/expected.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace verbatim {
namespace {

Expected<std::string> half_of(int number) {
  if (number % 2 != 0) return Errc::kInvalidArgument;
  return std::to_string(number / 2);
}

TEST(Expected, HoldsAValue) {
  auto half = half_of(84);
  ASSERT_TRUE(half);
  EXPECT_TRUE(half.ok());
  EXPECT_EQ(*half, "42");
  EXPECT_EQ(half->size(), 2U);
  EXPECT_EQ(half.value(), "42");
}

TEST(Expected, HoldsAnError) {
  const auto half = half_of(3);
  ASSERT_FALSE(half);
  EXPECT_FALSE(half.ok());
  EXPECT_EQ(half.error(), Errc::kInvalidArgument);
}

TEST(Expected, CopiesAndMovesEither) {
  const auto good = half_of(246);
  const auto bad = half_of(1);
  const auto good_copy = good;  // NOLINT: the copy is the point
  const auto bad_copy = bad;    // NOLINT: the copy is the point
  EXPECT_EQ(*good_copy, "123");
  EXPECT_EQ(*good, "123");
  EXPECT_EQ(bad_copy.error(), Errc::kInvalidArgument);
}

TEST(Expected, GivesAMoveOnlyValueAway) {
  Expected<std::unique_ptr<int>> made(std::make_unique<int>(7));
  Expected<std::unique_ptr<int>> moved(std::move(made));
  const std::unique_ptr<int> taken = std::move(moved).value();
  EXPECT_EQ(*taken, 7);
}

struct Counted {
  explicit Counted(int& alive) : alive_(&alive) { ++*alive_; }
  Counted(const Counted& other) noexcept : alive_(other.alive_) { ++*alive_; }
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --*alive_; }
  int* alive_;
};

TEST(Expected, DestroysItsValueOnce) {
  int alive = 0;
  {
    Expected<Counted> one{Counted(alive)};
    const Expected<Counted> two(one);
    const Expected<Counted> none(Errc::kBusy);
    EXPECT_EQ(alive, 2);
  }
  EXPECT_EQ(alive, 0);
}

TEST(ExpectedDeathTest, AskingForWhatIsNotThereStopsTheProcess) {
  EXPECT_DEATH((void)half_of(1).value(), "internal error");
  EXPECT_DEATH((void)half_of(2).error(), "internal error");
}

TEST(Status, IsFineOrSaysWhyNot) {
  const Status fine = Ok{};
  EXPECT_TRUE(fine);
  EXPECT_TRUE(fine.ok());
  const Status busy = Errc::kBusy;
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error(), Errc::kBusy);
}

TEST(StatusDeathTest, ASuccessHasNoError) {
  EXPECT_DEATH((void)Status(Ok{}).error(), "internal error");
}

}  // namespace
}  // namespace verbatim
