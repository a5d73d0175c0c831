// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "rehome/alone.h"
#include "rehome/test_memory.h"

namespace verbatim::rehome::test {

/// Tests of this fixture run with every way to take pages out of a program's memory.
class Moving : public ::testing::TestWithParam<Taking> {
 protected:
  void SetUp() override { VB_SKIP_IF_NOTHING_MOVES(); }

  [[nodiscard]] Placement move_in(Range range) { return move_in(rehoming_, range); }
  [[nodiscard]] static Placement move_in(Rehoming& rehoming, Range range) {
    const auto placement = rehoming.move_in(range);
    EXPECT_TRUE(placement.ok()) << to_text(placement.error());
    return placement.ok() ? *placement : Placement{};
  }
  /// nullptr when it was moved.
  [[nodiscard]] const char* refusal(Range range) {
    const auto placement = rehoming_.move_in(range);
    if (!placement) return to_text(placement.error());
    rehoming_.drop(*placement);
    return nullptr;
  }

  Rehoming& rehoming_ = make(GetParam());

 private:
  /// Never destroyed: its monitor exists as long as the process. The list keeps a pointer for the
  /// leak sanitizer to those whose monitor was never started.
  static Rehoming& make(Taking taking) {
    static auto& all = *new std::vector<Rehoming*>;
    return *all.emplace_back(new Rehoming({.policy = Policy::kEdges, .taking = taking}));
  }
};

inline const char* name_of(const ::testing::TestParamInfo<Taking>& info) {
  return info.param == Taking::kBest ? "Best" : "Mapping";
}

}  // namespace verbatim::rehome::test

/// Once in every file with tests of a class that derives from Moving.
#define VB_WITH_EVERY_TAKING(suite)                                                           \
  INSTANTIATE_TEST_SUITE_P(Taking, suite, ::testing::Values(Taking::kBest, Taking::kMapping), \
                           test::name_of)
