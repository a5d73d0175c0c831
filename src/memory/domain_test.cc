// SPDX-License-Identifier: Apache-2.0
#include "memory/domain.h"

#include <gtest/gtest.h>

#include <array>

namespace verbatim::memory {
namespace {

TEST(DomainTable, NumbersDomainsFromOneSoThatNoneIsNeverOpen) {
  std::array<DomainTable::Entry, 2> entries{};
  DomainTable table(entries);
  EXPECT_EQ(*table.open(), DomainId{1});
  EXPECT_EQ(*table.open(), DomainId{2});
  EXPECT_EQ(table.close(DomainId::kNone).error(), Errc::kInvalidArgument);
  EXPECT_EQ(table.add_user(DomainId::kNone).error(), Errc::kInvalidArgument);
}

TEST(DomainTable, RefusesOneDomainTooMany) {
  std::array<DomainTable::Entry, 1> entries{};
  DomainTable table(entries);
  ASSERT_TRUE(table.open());
  EXPECT_EQ(table.open().error(), Errc::kNoMemory);
}

TEST(DomainTable, AnEmptyTableOpensNothing) {
  DomainTable table({});
  EXPECT_EQ(table.open().error(), Errc::kNoMemory);
  EXPECT_EQ(table.close(DomainId{1}).error(), Errc::kInvalidArgument);
}

TEST(DomainTable, AClosedDomainIsGoneAndItsPlaceIsReused) {
  std::array<DomainTable::Entry, 1> entries{};
  DomainTable table(entries);
  const DomainId domain = *table.open();
  ASSERT_TRUE(table.close(domain).ok());
  EXPECT_EQ(table.close(domain).error(), Errc::kInvalidArgument);
  EXPECT_EQ(table.add_user(domain).error(), Errc::kInvalidArgument);
  EXPECT_TRUE(table.open());
}

TEST(DomainTable, StaysOpenUntilItsLastUserIsGone) {
  std::array<DomainTable::Entry, 1> entries{};
  DomainTable table(entries);
  const DomainId domain = *table.open();
  ASSERT_TRUE(table.add_user(domain).ok());
  ASSERT_TRUE(table.add_user(domain).ok());
  EXPECT_EQ(table.close(domain).error(), Errc::kBusy);
  table.drop_user(domain);
  EXPECT_EQ(table.close(domain).error(), Errc::kBusy);
  table.drop_user(domain);
  EXPECT_TRUE(table.close(domain).ok());
}

TEST(DomainTable, CountsTheUsersOfEachDomainApart) {
  std::array<DomainTable::Entry, 2> entries{};
  DomainTable table(entries);
  const DomainId one = *table.open();
  const DomainId other = *table.open();
  ASSERT_TRUE(table.add_user(one).ok());
  EXPECT_TRUE(table.close(other).ok());
  EXPECT_EQ(table.close(one).error(), Errc::kBusy);
}

TEST(DomainTable, KnowsNoDomainBeyondItsStorage) {
  std::array<DomainTable::Entry, 2> entries{};
  DomainTable table(entries);
  ASSERT_TRUE(table.open());
  for (const std::uint32_t id : {2U, 3U, 0x8000'0000U, 0xffff'ffffU}) {
    EXPECT_EQ(table.add_user(DomainId{id}).error(), Errc::kInvalidArgument) << id;
  }
}

TEST(DomainTableDeathTest, DroppingAUserThatWasNeverAddedStopsTheProcess) {
  std::array<DomainTable::Entry, 1> entries{};
  DomainTable table(entries);
  const DomainId domain = *table.open();
  EXPECT_DEATH(table.drop_user(domain), "users > 0");
  EXPECT_DEATH(table.drop_user(DomainId::kNone), "entry != nullptr");
}

}  // namespace
}  // namespace verbatim::memory
