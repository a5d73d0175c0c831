// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "rehome/test_memory.h"

namespace verbatim::rehome::test {

inline constexpr Instant kStart = Instant::at(std::chrono::milliseconds(0));
inline constexpr Instant kMuchLater = Instant::at(std::chrono::hours(1));

/// Promises that hold for every way to hold up other threads.
class Moving : public ::testing::TestWithParam<Guarding> {
 protected:
  void SetUp() override { VB_SKIP_IF_NOTHING_MOVES(); }
  void TearDown() override {
    EXPECT_EQ(rehoming_.moved_octets(), 0U);
    EXPECT_EQ(mappings_of_arena(), 0U);
    EXPECT_EQ(arena_octets(rehoming_), 0U);
  }

  [[nodiscard]] Placement move_in(Range range) { return move_in(rehoming_, range); }
  [[nodiscard]] static Placement move_in(Rehoming& rehoming, Range range) {
    const auto placement = rehoming.move_in(range, kStart);
    EXPECT_TRUE(placement.ok()) << to_text(placement.error());
    return placement.ok() ? *placement : Placement{};
  }
  void move_back(const Placement& placement) { rehoming_.move_back(placement, kMuchLater); }
  /// nullptr when it was moved.
  [[nodiscard]] const char* refusal(Range range) {
    const auto placement = rehoming_.move_in(range, kStart);
    if (!placement) return to_text(placement.error());
    rehoming_.move_back(*placement, kMuchLater);
    return nullptr;
  }

  Rehoming rehoming_{{.policy = Policy::kAlways, .guarding = GetParam()}};
};

inline const char* name_of(const ::testing::TestParamInfo<Guarding>& info) {
  switch (info.param) {
    case Guarding::kBest:
      return "Best";
    case Guarding::kUserMode:
      return "UserMode";
    case Guarding::kBlocking:
      return "Blocking";
  }
  return "";
}

}  // namespace verbatim::rehome::test

/// Once in every file with tests of a class that derives from Moving.
#define VB_WITH_EVERY_GUARD(suite) \
  INSTANTIATE_TEST_SUITE_P(        \
      Guarded, suite,              \
      ::testing::Values(Guarding::kBest, Guarding::kUserMode, Guarding::kBlocking), test::name_of)
