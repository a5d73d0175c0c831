// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/latencies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/prng.h"

namespace verbatim::sim {
namespace {

TEST(Latencies, WithoutAnyAreZero) {
  EXPECT_EQ(Latencies().per_mille(500), Duration{0});
  EXPECT_EQ(Latencies().count(), 0U);
}

TEST(Latencies, SmallOnesAreExact) {
  Latencies latencies;
  for (int value = 1; value <= 50; ++value) latencies.add(Duration(value));
  EXPECT_EQ(latencies.count(), 50U);
  EXPECT_EQ(latencies.per_mille(1), Duration(1));
  EXPECT_EQ(latencies.per_mille(500), Duration(25));
  EXPECT_EQ(latencies.per_mille(1000), Duration(50));
}

TEST(Latencies, AreRightToOnePartIn64) {
  Prng prng(5);
  Latencies latencies;
  std::vector<std::int64_t> values;
  for (int count = 0; count < 5000; ++count) {
    const auto bits = prng.between(1, 40);
    values.push_back(static_cast<std::int64_t>(prng.below(std::uint64_t{1} << bits)));
    latencies.add(Duration(values.back()));
  }
  std::ranges::sort(values);
  for (const std::uint64_t share : {1U, 100U, 500U, 990U, 999U, 1000U}) {
    const auto rank = std::max<std::size_t>(1, (values.size() * share + 999) / 1000);
    const auto wanted = values[rank - 1];
    const auto has = latencies.per_mille(share).count();
    EXPECT_GE(has, wanted);
    EXPECT_LE(has, wanted + wanted / 64);
  }
}

TEST(Latencies, TheLargestPossibleOneIsCounted) {
  Latencies latencies;
  latencies.add(Duration::max());
  EXPECT_GE(latencies.per_mille(1000), Duration::max() - Duration(1));
}

}  // namespace
}  // namespace verbatim::sim
