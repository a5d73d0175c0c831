// SPDX-License-Identifier: Apache-2.0
#include "rehome/run_list.h"

#include <gtest/gtest.h>

#include <map>

#include "base/prng.h"

namespace verbatim::rehome {
namespace {

Range range(std::uintptr_t begin, std::uintptr_t end) { return {.begin = begin, .end = end}; }

TEST(RunList, CountsOverlapsAndReturnsWhatNobodyCovers) {
  RunList list;
  list.insert({.range = range(10, 20), .parking = 110});
  list.add_one(range(10, 20));
  list.insert({.range = range(20, 30), .parking = 120});
  list.add_one(range(15, 30));
  ASSERT_EQ(list.runs().size(), 3U);
  EXPECT_EQ(list.runs()[1].range, range(15, 20));
  EXPECT_EQ(list.runs()[1].count, 2U);

  const auto first = list.drop_one(range(10, 20));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].range, range(10, 15));
  EXPECT_EQ(first[0].parking, 110U);
  const auto second = list.drop_one(range(15, 30));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].range, range(15, 30));
  EXPECT_EQ(second[0].parking, 115U);
  EXPECT_TRUE(list.runs().empty());
}

TEST(RunList, MergesNeighboursThatAreAlikeOnly) {
  RunList list;
  list.insert({.range = range(10, 20), .parking = 110});
  list.insert({.range = range(20, 30), .parking = 120});
  EXPECT_EQ(list.runs().size(), 1U);
  list.insert({.range = range(30, 40), .parking = 999});
  EXPECT_EQ(list.runs().size(), 2U) << "parked elsewhere";
  list.insert({.range = range(0, 10), .parking = 100, .dont_fork = true});
  EXPECT_EQ(list.runs().size(), 3U) << "inherited otherwise";
  list.add_one(range(0, 40));
  EXPECT_EQ(list.runs().size(), 3U);
}

TEST(RunList, KnowsWhatItCovers) {
  RunList list;
  list.insert({.range = range(10, 20), .parking = 110});
  list.insert({.range = range(20, 30), .parking = 500});
  list.insert({.range = range(40, 50), .parking = 600});
  EXPECT_TRUE(list.covers(range(10, 30)));
  EXPECT_TRUE(list.covers(range(45, 50)));
  EXPECT_FALSE(list.covers(range(9, 11)));
  EXPECT_FALSE(list.covers(range(25, 45)));
  EXPECT_FALSE(list.covers(range(60, 61)));
  EXPECT_TRUE(list.overlaps(range(25, 45)));
  EXPECT_FALSE(list.overlaps(range(30, 40)));
  EXPECT_EQ(list.find(9), nullptr);
  EXPECT_EQ(list.find(30), nullptr);
  ASSERT_NE(list.find(20), nullptr);
  EXPECT_EQ(list.find(20)->parking_of(25), 505U);
}

TEST(RunList, AgreesWithACounterPerPage) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    RunList list;
    std::map<std::uintptr_t, std::uint32_t> pages;
    std::vector<Range> live;
    for (int step = 0; step < 300; ++step) {
      if (live.empty() || prng.one_in(2)) {
        const std::uintptr_t begin = prng.below(60);
        const Range added = range(begin, begin + 1 + prng.below(12));
        for (std::uintptr_t page = added.begin; page < added.end; ++page) {
          if (pages[page]++ == 0)
            list.insert({.range = range(page, page + 1), .parking = page + 1000});
        }
        list.add_one(added);
        live.push_back(added);
      } else {
        const std::size_t index = prng.below(live.size());
        const Range dropped = live[index];
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
        std::size_t gone = 0;
        for (std::uintptr_t page = dropped.begin; page < dropped.end; ++page) {
          gone += --pages[page] == 0 ? 1U : 0U;
        }
        for (const auto& run : list.drop_one(dropped)) {
          EXPECT_EQ(run.parking, run.range.begin + 1000);
          for (std::uintptr_t page = run.range.begin; page < run.range.end; ++page, --gone) {
            EXPECT_EQ(pages[page], 0U);
          }
        }
        EXPECT_EQ(gone, 0U);
      }
      for (std::uintptr_t page = 0; page < 80; ++page) {
        const auto* run = list.find(page);
        ASSERT_EQ(run == nullptr ? 0U : run->count, pages[page]) << page;
      }
    }
  }
}

TEST(RunList, TakesOutARangeWhateverItsCount) {
  RunList list;
  list.insert({.range = range(10, 30), .parking = 110});
  list.add_one(range(10, 30));
  const auto gone = list.remove(range(15, 20));
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].range, range(15, 20));
  EXPECT_EQ(list.runs().size(), 2U);
  EXPECT_TRUE(list.remove(range(15, 20)).empty());
}

}  // namespace
}  // namespace verbatim::rehome
