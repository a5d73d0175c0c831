// SPDX-License-Identifier: Apache-2.0
#include "memory/scatter_gather.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/prng.h"
#include "memory/test_memory.h"

namespace verbatim::memory {
namespace {

using Octets = std::vector<std::byte>;

class ScatterGatherTest : public testing::Test {
 protected:
  ScatterGatherTest() {
    Prng prng(3);
    for (std::uint64_t i = 0; i < TestMemory::kOctets; ++i) {
      memory_.octets()[i] = static_cast<std::byte>(prng.below(256));
    }
  }

  Sge element(std::uint64_t offset, std::uint32_t octets) const {
    return {.address = memory_.start() + offset, .octets = octets, .lkey = region_};
  }
  LocalAccess loading() const {
    return {.table = &memory_.table(), .domain = TestMemory::kHome, .need = Access::kNone};
  }
  LocalAccess storing() const {
    return {.table = &memory_.table(), .domain = TestMemory::kHome, .need = Access::kLocalWrite};
  }

  /// Up to ten elements, in any order, overlapping or not, some of them empty.
  std::vector<Sge> random_list(Prng& prng) const {
    std::vector<Sge> list;
    for (std::uint64_t left = prng.below(11); left > 0; --left) {
      const auto octets = static_cast<std::uint32_t>(prng.one_in(3) ? 0 : prng.below(200));
      list.push_back(element(prng.below(TestMemory::kOctets - octets), octets));
      // The key of an empty element is not looked at.
      if (octets == 0 && prng.one_in(2)) list.back().lkey = wire::MemoryKey{0xbad};
    }
    return list;
  }

  /// The octets of the list, one element after the other.
  Octets gather(const std::vector<Sge>& list) {
    Octets all(total_octets(list));
    std::byte* to = all.data();
    for (const Sge& sge : list) {
      if (sge.octets == 0) continue;
      std::memcpy(to, memory_.octets() + (sge.address - memory_.start()), sge.octets);
      to += sge.octets;
    }
    return all;
  }

  TestMemory memory_;
  wire::MemoryKey region_ = memory_.region(TestMemory::kEverything);
};

TEST_F(ScatterGatherTest, WalkingInRandomPiecesGathersWhatOneCopyWould) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    const auto list = random_list(prng);
    const Octets expected = gather(list);
    Octets walked;
    SgeCursor cursor;
    while (walked.size() < expected.size()) {
      const std::uint64_t octets =
          prng.between(0, std::min<std::uint64_t>(300, expected.size() - walked.size()));
      const auto done = walk(list, cursor, octets, loading(), [&](std::span<std::byte> piece) {
        EXPECT_FALSE(piece.empty());
        walked.insert(walked.end(), piece.begin(), piece.end());
      });
      ASSERT_TRUE(done.ok());
    }
    EXPECT_EQ(walked, expected);
  }
}

TEST_F(ScatterGatherTest, WalkingInRandomPiecesScattersWhatOneCopyWould) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    const auto list = random_list(prng);
    Octets message(total_octets(list));
    for (auto& octet : message) octet = static_cast<std::byte>(prng.below(256));
    Octets expected(memory_.octets(), memory_.octets() + TestMemory::kOctets);
    std::size_t from = 0;
    for (const Sge& sge : list) {
      for (std::uint32_t i = 0; i < sge.octets; ++i) {
        expected[sge.address - memory_.start() + i] = message[from++];
      }
    }
    SgeCursor cursor;
    std::size_t done = 0;
    while (done < message.size()) {
      const std::uint64_t octets = prng.between(1, message.size() - done);
      ASSERT_TRUE(walk(list, cursor, octets, storing(), [&](std::span<std::byte> piece) {
                    std::memcpy(piece.data(), message.data() + done, piece.size());
                    done += piece.size();
                  }).ok());
    }
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), memory_.octets()));
  }
}

TEST_F(ScatterGatherTest, TheCursorOfAPositionIsWhereAWalkWouldHaveArrived) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    const auto list = random_list(prng);
    const Octets expected = gather(list);
    for (int round = 0; round < 20; ++round) {
      const std::uint64_t position = prng.between(0, expected.size());
      SgeCursor cursor = cursor_at(list, position);
      Octets rest;
      ASSERT_TRUE(walk(list, cursor, expected.size() - position, loading(),
                       [&](std::span<std::byte> piece) {
                         rest.insert(rest.end(), piece.begin(), piece.end());
                       })
                      .ok());
      ASSERT_TRUE(std::equal(rest.begin(), rest.end(),
                             expected.begin() + static_cast<std::ptrdiff_t>(position),
                             expected.end()));
    }
  }
}

TEST_F(ScatterGatherTest, TheCursorOfAPositionSkipsEmptyElements) {
  const std::vector<Sge> list = {element(0, 0), element(0, 8), element(0, 0), element(8, 8)};
  const auto expect_at = [&](std::uint64_t position, std::uint32_t index, std::uint32_t offset) {
    const SgeCursor cursor = cursor_at(list, position);
    EXPECT_EQ(cursor.index, index) << position;
    EXPECT_EQ(cursor.offset, offset) << position;
  };
  expect_at(0, 1, 0);
  expect_at(7, 1, 7);
  expect_at(8, 3, 0);
  expect_at(15, 3, 7);
  expect_at(16, 4, 0);
  expect_at(17, 4, 0);
  expect_at(std::numeric_limits<std::uint64_t>::max(), 4, 0);
}

TEST_F(ScatterGatherTest, AnEmptyListHasNothingToWalk) {
  SgeCursor cursor = cursor_at({}, 0);
  EXPECT_EQ(cursor.index, 0U);
  const auto visit = [](std::span<std::byte>) { FAIL() << "nothing to visit"; };
  EXPECT_TRUE(walk({}, cursor, 0, loading(), visit).ok());
  EXPECT_EQ(walk({}, cursor, 1, loading(), visit).error(), Refusal::kBeyondRange);
}

TEST_F(ScatterGatherTest, AListThatIsTooShortIsWalkedToItsEnd) {
  const std::vector<Sge> list = {element(0, 8), element(0, 0), element(16, 8), element(0, 0)};
  SgeCursor cursor;
  std::size_t visited = 0;
  const auto count = [&](std::span<std::byte> piece) { visited += piece.size(); };
  EXPECT_EQ(walk(list, cursor, 17, loading(), count).error(), Refusal::kBeyondRange);
  EXPECT_EQ(visited, 16U);
  EXPECT_EQ(cursor.index, 4U);
  EXPECT_EQ(cursor.offset, 0U);
  EXPECT_EQ(walk(list, cursor, 1, loading(), count).error(), Refusal::kBeyondRange);
  EXPECT_TRUE(walk(list, cursor, 0, loading(), count).ok());
}

TEST_F(ScatterGatherTest, ABadKeyInTheMiddleStopsTheWalkThere) {
  std::vector<Sge> list = {element(0, 8), element(8, 8), element(16, 8)};
  list[1].lkey = KeyRegistry::next_key(region_);
  SgeCursor cursor;
  Octets walked;
  const auto collect = [&](std::span<std::byte> piece) {
    walked.insert(walked.end(), piece.begin(), piece.end());
  };
  EXPECT_EQ(walk(list, cursor, 24, loading(), collect).error(), Refusal::kStaleKey);
  EXPECT_TRUE(std::equal(walked.begin(), walked.end(), memory_.octets(), memory_.octets() + 8));
  EXPECT_EQ(cursor.index, 1U);
  EXPECT_EQ(cursor.offset, 0U);
}

TEST_F(ScatterGatherTest, ABadKeyThatIsNotReachedIsNotAnError) {
  std::vector<Sge> list = {element(0, 8), element(8, 8)};
  list[1].lkey = wire::MemoryKey{0};
  SgeCursor cursor;
  const auto ignore = [](std::span<std::byte>) {};
  EXPECT_TRUE(walk(list, cursor, 8, loading(), ignore).ok());
  EXPECT_EQ(walk(list, cursor, 1, loading(), ignore).error(), Refusal::kNoSuchKey);
}

TEST_F(ScatterGatherTest, ChecksEachElementForTheAccessThatIsAskedFor) {
  const auto read_only = memory_.region(Access::kRemoteRead);
  const auto abroad = memory_.region(TestMemory::kEverything, TestMemory::kAbroad);
  std::vector<Sge> list = {element(0, 8)};
  const auto walk_first = [&](const LocalAccess& access) {
    SgeCursor cursor;
    const auto done = walk(list, cursor, 8, access, [](std::span<std::byte>) {});
    return done.ok() ? Refusal::kNone : done.error();
  };
  EXPECT_EQ(walk_first(storing()), Refusal::kNone);
  list[0].lkey = read_only;
  EXPECT_EQ(walk_first(loading()), Refusal::kNone);
  EXPECT_EQ(walk_first(storing()), Refusal::kNoLocalWrite);
  list[0].lkey = abroad;
  EXPECT_EQ(walk_first(loading()), Refusal::kOtherDomain);
  list[0] = element(TestMemory::kOctets - 4, 8);
  EXPECT_EQ(walk_first(loading()), Refusal::kBeyondRange);
}

TEST_F(ScatterGatherTest, ACursorBehindItsElementReadsNothingOfIt) {
  // A cursor may lie in memory that others write.
  const std::vector<Sge> list = {element(0, 8), element(100, 8)};
  for (const std::uint32_t offset : {8U, 9U, 4000U, 0xffff'ffffU}) {
    SgeCursor cursor{.index = 0, .offset = offset};
    Octets walked;
    const auto collect = [&](std::span<std::byte> piece) {
      walked.insert(walked.end(), piece.begin(), piece.end());
    };
    EXPECT_EQ(walk(list, cursor, 100, loading(), collect).error(), Refusal::kBeyondRange);
    EXPECT_TRUE(
        std::equal(walked.begin(), walked.end(), memory_.octets() + 100, memory_.octets() + 108));
    SgeCursor outside{.index = 0xffff'ffff, .offset = offset};
    EXPECT_EQ(walk(list, outside, 1, loading(), collect).error(), Refusal::kBeyondRange);
  }
}

TEST_F(ScatterGatherTest, TheSumOfTheLargestElementsDoesNotOverflow) {
  const std::vector<Sge> list(16, Sge{.octets = 0xffff'ffff});
  EXPECT_EQ(total_octets(list), 16U * std::uint64_t{0xffff'ffff});
}

TEST(Sge, IsLaidOutAsInTheVerbs) {
  EXPECT_EQ(sizeof(Sge), 16U);
  EXPECT_EQ(offsetof(Sge, address), 0U);
  EXPECT_EQ(offsetof(Sge, octets), 8U);
  EXPECT_EQ(offsetof(Sge, lkey), 12U);
}

}  // namespace
}  // namespace verbatim::memory
