// SPDX-License-Identifier: Apache-2.0
#include "loop/queue_pair_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

namespace verbatim::loop {
namespace {

struct Thing {
  int name = 0;
};
using Table = QueuePairTable<Thing>;

constexpr std::uint32_t kSlot = 7;
constexpr std::uint32_t kFirstOfSlot = kSlot * kNumbersPerSlot;

TEST(QueuePairTable, FindsAQueuePairByTheNumberThatItGave) {
  Table table;
  table.open(kSlot, 1);
  Thing one{.name = 1};
  Thing two{.name = 2};
  const auto first = table.add(one);
  const auto second = table.add(two);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
  EXPECT_EQ(table.find(*first), &one);
  EXPECT_EQ(table.find(*second), &two);
  EXPECT_EQ(table.at(Table::index_of(*second)), &two);
}

TEST(QueuePairTable, DoesNotFindTheSamePlaceOfAnotherSlot) {
  Table table;
  table.open(kSlot, 1);
  Thing thing;
  const auto number = table.add(thing);
  ASSERT_TRUE(number.ok());
  const std::uint32_t place = Table::index_of(*number);
  for (const std::uint32_t slot : {0U, kSlot - 1, kSlot + 1, 255U}) {
    EXPECT_EQ(table.find(wire::QpNumber{slot * kNumbersPerSlot + place}), nullptr) << slot;
  }
}

TEST(QueuePairTable, ForgetsAQueuePairThatWasRemoved) {
  Table table;
  table.open(kSlot, 1);
  Thing one;
  Thing two;
  const auto number = table.add(one);
  const auto other = table.add(two);
  ASSERT_TRUE(number.ok() && other.ok());
  table.remove(*number);
  EXPECT_EQ(table.find(*number), nullptr);
  EXPECT_EQ(table.find(*other), &two);
}

TEST(QueuePairTable, GivesEveryNumberOnceAndNoneThatIsReserved) {
  Table table;
  table.open(kSlot, 99);
  std::vector<Thing> things(kQueuePairsMax);
  std::set<std::uint32_t> given;
  for (Thing& thing : things) {
    const auto number = table.add(thing);
    ASSERT_TRUE(number.ok());
    given.insert(static_cast<std::uint32_t>(*number));
  }
  EXPECT_EQ(given.size(), things.size());
  EXPECT_EQ(*given.begin(), kFirstOfSlot + Table::kFirst);
  EXPECT_EQ(*given.rbegin(), kFirstOfSlot + Table::kLast);

  Thing more;
  EXPECT_EQ(table.add(more).error(), Errc::kNoMemory);
  const wire::QpNumber freed{kFirstOfSlot + 1000};
  table.remove(freed);
  const auto again = table.add(more);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, freed);
}

TEST(QueuePairTable, DoesNotReuseANumberAtOnce) {
  Table table;
  table.open(kSlot, 5);
  Thing thing;
  const auto first = table.add(thing);
  ASSERT_TRUE(first.ok());
  table.remove(*first);
  const auto second = table.add(thing);
  ASSERT_TRUE(second.ok());
  EXPECT_NE(*first, *second);
}

TEST(QueuePairTable, VisitsAllInTheOrderOfTheirNumbers) {
  Table table;
  table.open(kSlot, 5);
  std::vector<Thing> things(3);
  std::map<std::uint32_t, int> expected;
  for (Thing& thing : things) {
    thing.name = static_cast<int>(&thing - things.data()) + 1;
    const auto number = table.add(thing);
    ASSERT_TRUE(number.ok());
    expected[static_cast<std::uint32_t>(*number)] = thing.name;
  }
  std::vector<int> wanted;
  for (const auto& [number, name] : expected) wanted.push_back(name);
  std::vector<int> visited;
  table.for_each([&](Thing& thing) { visited.push_back(thing.name); });
  EXPECT_EQ(visited, wanted);
}

TEST(QueuePairTable, NumbersOfSharedQueuesCarryTheSlot) {
  Table table;
  table.open(kSlot, 5);
  const auto first = static_cast<std::uint32_t>(table.next_shared_number());
  const auto second = static_cast<std::uint32_t>(table.next_shared_number());
  EXPECT_NE(first, second);
  EXPECT_EQ(first / kNumbersPerSlot, kSlot);
  EXPECT_EQ(second / kNumbersPerSlot, kSlot);
}

}  // namespace
}  // namespace verbatim::loop
