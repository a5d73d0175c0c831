// SPDX-License-Identifier: Apache-2.0
#include "cm/communication_table.h"

#include <gtest/gtest.h>

#include <set>

#include "wire/cm/addressee.h"

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
  for (int i = 0; i < 1023; ++i) {
    const auto id = table.add()->id;
    EXPECT_TRUE(ids.insert(id).second) << i;
    table.remove(id);
    EXPECT_EQ(table.find(id), nullptr);
  }
}

/// Zero means "no communication" in messages and to users; the first index of the first slot is
/// nearest to it.
TEST(CommunicationTable, NoIdIsZero) {
  for (std::uint64_t seed = 0; seed < 4096; ++seed) {
    CommunicationTable table({.slot = 0, .capacity = 1, .seed = seed});
    EXPECT_NE(table.add()->id, wire::CommId{}) << "the first one, with seed " << seed;
  }
  CommunicationTable table({.slot = 0, .capacity = 1});
  for (int i = 0; i < 3000; ++i) {
    const auto id = table.add()->id;
    EXPECT_NE(id, wire::CommId{}) << i;
    table.remove(id);
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

bool is_any(const Communication&) { return true; }

TEST(CommunicationTable, IsFoundByWhatThePeerCallsItUntilItIsRemoved) {
  constexpr std::uint32_t kCount = 1000;  // more than the first size of the index
  CommunicationTable table({.capacity = kCount, .seed = 3});
  std::vector<Communication*> all;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    all.push_back(table.add());
    all[i]->remote_id = wire::CommId{0x1000'0000 + i};
    all[i]->settings.remote_qpn = wire::QpNumber{i};
    table.index_by_peer_id(*all[i]);
    if (i % 2 == 0) table.index_by_peer_qp(*all[i]);
  }
  for (std::uint32_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(table.find_by_peer_id(wire::CommId{0x1000'0000 + i}, is_any), all[i]);
    EXPECT_EQ(table.find_by_peer_qp(wire::QpNumber{i}, is_any), i % 2 == 0 ? all[i] : nullptr);
  }
  EXPECT_EQ(table.find_by_peer_id(wire::CommId{kCount}, is_any), nullptr);
  for (std::uint32_t i = 0; i < kCount; i += 3) table.remove(all[i]->id);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    Communication* const expected = i % 3 == 0 ? nullptr : all[i];
    EXPECT_EQ(table.find_by_peer_id(wire::CommId{0x1000'0000 + i}, is_any), expected);
  }
}

TEST(CommunicationTable, PeersMayGiveTheSameNumber) {
  CommunicationTable table({.capacity = 8, .seed = 4});
  std::set<const Communication*> expected;
  for (int i = 0; i < 4; ++i) {
    Communication* communication = table.add();
    communication->remote_id = wire::CommId{42};
    table.index_by_peer_id(*communication);
    expected.insert(communication);
  }
  std::set<const Communication*> seen;
  const auto look = [&](const Communication& communication) {
    seen.insert(&communication);
    return false;
  };
  EXPECT_EQ(table.find_by_peer_id(wire::CommId{42}, look), nullptr);
  EXPECT_EQ(seen, expected);
}

}  // namespace
}  // namespace verbatim::cm
