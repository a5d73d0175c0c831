// SPDX-License-Identifier: Apache-2.0
#include "cm/communication_table.h"

#include <gtest/gtest.h>

#include <set>

#include "cm/addressee.h"

namespace verbatim::cm {
namespace {

TEST(CommunicationTable, WhatWasAddedIsFoundUntilItIsRemoved) {
  CommunicationTable table({.slot = 7, .capacity = 3, .seed = 1});
  Communication* first = table.add();
  Communication* second = table.add();
  ASSERT_TRUE(first != nullptr && second != nullptr);
  EXPECT_NE(first->id, second->id);
  EXPECT_EQ(slot_of(first->id), 7);
  EXPECT_EQ(table.find(first->id), first);
  EXPECT_EQ(table.find(second->id), second);
  EXPECT_EQ(table.size(), 2U);
  const auto id = first->id;
  table.remove(id);
  EXPECT_EQ(table.find(id), nullptr);
  EXPECT_EQ(table.find(second->id), second);
  EXPECT_EQ(table.size(), 1U);
}

TEST(CommunicationTable, ItIsFullAtItsCapacity) {
  CommunicationTable table({.capacity = 2});
  Communication* first = table.add();
  EXPECT_NE(table.add(), nullptr);
  EXPECT_EQ(table.add(), nullptr);
  table.remove(first->id);
  EXPECT_NE(table.add(), nullptr);
  EXPECT_EQ(table.add(), nullptr);
}

TEST(CommunicationTable, AnIdComesBackAfterTenBitsOfGenerationsOnly) {
  CommunicationTable table({.capacity = 1});
  std::set<wire::CommId> ids;
  for (int i = 0; i < 1024; ++i) {
    const auto id = table.add()->id;
    EXPECT_TRUE(ids.insert(id).second) << i;
    table.remove(id);
    EXPECT_EQ(table.find(id), nullptr);
  }
}

TEST(CommunicationTable, IndicesRestBeforeTheyAreUsedAgain) {
  CommunicationTable table({.capacity = 4096, .seed = 5});
  std::set<std::uint32_t> indices;
  for (std::size_t i = 0; i < CommunicationTable::kRestingIndices; ++i) {
    const auto id = table.add()->id;
    indices.insert(static_cast<std::uint32_t>(id) & 0x3fff);
    table.remove(id);
  }
  EXPECT_EQ(indices.size(), CommunicationTable::kRestingIndices);
}

TEST(CommunicationTable, SeedsGiveDifferentIds) {
  CommunicationTable a({.capacity = 64, .seed = 1});
  CommunicationTable b({.capacity = 64, .seed = 2});
  int equal = 0;
  for (int i = 0; i < 64; ++i) equal += a.add()->id == b.add()->id ? 1 : 0;
  EXPECT_LT(equal, 8);
}

}  // namespace
}  // namespace verbatim::cm
