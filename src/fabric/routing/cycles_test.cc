// SPDX-License-Identifier: Apache-2.0
#include "fabric/routing/cycles.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace verbatim::fabric {
namespace {

TEST(Cycles, AGraphWithoutCyclesHasNone) {
  EXPECT_TRUE(find_cycles({}).empty());
  EXPECT_TRUE(find_cycles({{1, 2}, {2}, {}}).empty());
}

TEST(Cycles, AVertexThatLeadsToItselfIsOne) {
  EXPECT_EQ(find_cycles({{}, {1}}), (std::vector<Cycle>{{1}}));
}

TEST(Cycles, BeginWithTheirLeastVertexAndAreInOrder) {
  const Edges edges{{1}, {4}, {3}, {2}, {0, 2}};
  EXPECT_EQ(find_cycles(edges), (std::vector<Cycle>{{0, 1, 4}, {2, 3}}));
}

TEST(Cycles, AreTheShortestOfTheirPart) {
  const Edges edges{{1}, {2}, {3, 0}, {0}};
  EXPECT_EQ(find_cycles(edges), (std::vector<Cycle>{{0, 1, 2}}));
}

TEST(Cycles, DoNotContainVerticesThatOnlyLeadToThem) {
  EXPECT_EQ(find_cycles({{1}, {2}, {1}}), (std::vector<Cycle>{{1, 2}}));
}

TEST(Cycles, OfALongChainNeedNoStack) {
  constexpr std::uint32_t kLength = 300'000;
  Edges edges(kLength);
  for (std::uint32_t at = 0; at < kLength; ++at) edges[at] = {(at + 1) % kLength};
  const auto cycles = find_cycles(edges);
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles.front().size(), kLength);
}

/// Whether a walk of at most as many steps as there are vertices comes back.
bool comes_back(const Edges& edges, std::uint32_t start) {
  std::vector<bool> reached(edges.size());
  std::vector<std::uint32_t> next{start};
  for (std::size_t at = 0; at < next.size(); ++at) {
    for (const std::uint32_t to : edges[next[at]]) {
      if (to == start) return true;
      if (!reached[to]) next.push_back(to);
      reached[to] = true;
    }
  }
  return false;
}

TEST(Cycles, AreFoundInRandomGraphsExactlyWhereThereAreSome) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    Edges edges(1 + prng.below(12));
    for (std::uint64_t count = prng.below(2 * edges.size() + 1); count > 0; --count) {
      edges[prng.below(edges.size())].push_back(
          static_cast<std::uint32_t>(prng.below(edges.size())));
    }
    bool has_cycle = false;
    for (std::uint32_t vertex = 0; vertex < edges.size(); ++vertex) {
      has_cycle = has_cycle || comes_back(edges, vertex);
    }
    const auto cycles = find_cycles(edges);
    EXPECT_EQ(!cycles.empty(), has_cycle);
    for (const Cycle& cycle : cycles) {
      for (std::size_t at = 0; at < cycle.size(); ++at) {
        const auto& list = edges[cycle[at]];
        EXPECT_NE(std::find(list.begin(), list.end(), cycle[(at + 1) % cycle.size()]), list.end());
      }
    }
  }
}

}  // namespace
}  // namespace verbatim::fabric
