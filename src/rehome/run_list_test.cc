// SPDX-License-Identifier: Apache-2.0
#include "rehome/run_list.h"

#include <gtest/gtest.h>

#include <map>

#include "base/prng.h"

namespace verbatim::rehome {
namespace {

Range range(std::uintptr_t begin, std::uintptr_t end) { return {.begin = begin, .end = end}; }

std::uint32_t count_at(const RunList& list, std::uintptr_t page) {
  const auto found = list.within(range(page, page + 1));
  return found.empty() ? 0 : found.front().count;
}

TEST(RunList, CountsOverlapsAndKeepsWhatNoRangeCovers) {
  RunList list;
  list.insert({.range = range(10, 20)});
  list.add_one(range(10, 20));
  list.insert({.range = range(20, 30)});
  list.add_one(range(15, 30));
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list.runs()[1].range, range(15, 20));
  EXPECT_EQ(list.runs()[1].count, 2U);
  list.drop_one(range(10, 20));
  list.drop_one(range(15, 30));
  list.drop_one(range(15, 30));
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list.runs()[0].range, range(10, 30));
  EXPECT_EQ(list.runs()[0].count, 0U);
}

TEST(RunList, JoinsNeighboursThatAreAlikeOnly) {
  RunList list;
  list.insert({.range = range(10, 20)});
  list.insert({.range = range(20, 30)});
  EXPECT_EQ(list.size(), 1U);
  list.insert({.range = range(31, 40)});
  EXPECT_EQ(list.size(), 2U) << "not a neighbour";
  list.lose(range(15, 20));
  EXPECT_EQ(list.size(), 4U);
  list.lose(range(10, 40));
  EXPECT_EQ(list.size(), 2U);
}

TEST(RunList, KnowsWhatItCovers) {
  RunList list;
  list.insert({.range = range(10, 20)});
  list.insert({.range = range(20, 30), .count = 1});
  list.insert({.range = range(40, 50)});
  EXPECT_TRUE(list.covers(range(10, 30)));
  EXPECT_TRUE(list.covers(range(45, 50)));
  EXPECT_FALSE(list.covers(range(9, 11)));
  EXPECT_FALSE(list.covers(range(25, 45)));
  EXPECT_FALSE(list.covers(range(60, 61)));
  EXPECT_TRUE(list.overlaps(range(25, 45)));
  EXPECT_FALSE(list.overlaps(range(30, 40)));
  list.lose(range(12, 13));
  EXPECT_FALSE(list.covers(range(10, 20)));
  EXPECT_TRUE(list.covers(range(13, 20)));
}

TEST(RunList, AgreesWithACounterPerPage) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    RunList list;
    std::map<std::uintptr_t, std::uint32_t> pages;
    std::vector<Range> live;
    list.insert({.range = range(0, 80)});
    for (int step = 0; step < 300; ++step) {
      if (live.empty() || prng.one_in(2)) {
        const std::uintptr_t begin = prng.below(60);
        const Range added = range(begin, begin + 1 + prng.below(12));
        for (std::uintptr_t page = added.begin; page < added.end; ++page) ++pages[page];
        list.add_one(added);
        live.push_back(added);
      } else {
        const std::size_t index = prng.below(live.size());
        const Range dropped = live[index];
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
        for (std::uintptr_t page = dropped.begin; page < dropped.end; ++page) --pages[page];
        list.drop_one(dropped);
      }
      for (std::uintptr_t page = 0; page < 80; ++page) {
        ASSERT_EQ(count_at(list, page), pages[page]) << page;
      }
      const auto runs = list.runs();
      for (std::size_t i = 1; i < runs.size(); ++i) ASSERT_FALSE(runs[i].is_like(runs[i - 1]));
    }
  }
}

TEST(RunList, TellsWhatNoCountCovers) {
  RunList list;
  list.insert({.range = range(10, 30)});
  list.add_one(range(12, 15));
  list.add_one(range(20, 30));
  const auto uncounted = [&](Range where) {
    std::vector<Range> found;
    list.for_each_uncounted(where, [&](Range part) { found.push_back(part); });
    return found;
  };
  EXPECT_EQ(uncounted(range(0, 40)),
            (std::vector<Range>{range(0, 12), range(15, 20), range(30, 40)}));
  EXPECT_EQ(uncounted(range(13, 25)), (std::vector<Range>{range(15, 20)}));
  EXPECT_EQ(uncounted(range(12, 15)), std::vector<Range>{});
  EXPECT_EQ(uncounted(range(40, 50)), (std::vector<Range>{range(40, 50)}));
}

TEST(RunList, TakesOutARangeWhateverItsCount) {
  RunList list;
  list.insert({.range = range(10, 30)});
  list.add_one(range(10, 30));
  const auto gone = list.remove(range(15, 20));
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].range, range(15, 20));
  EXPECT_EQ(list.size(), 2U);
  EXPECT_TRUE(list.remove(range(15, 20)).empty());
}

}  // namespace
}  // namespace verbatim::rehome
