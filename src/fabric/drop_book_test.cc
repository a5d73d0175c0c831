// SPDX-License-Identifier: Apache-2.0
#include "fabric/drop_book.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace verbatim::fabric {
namespace {

TEST(DropBook, ItCountsByReasonAndKeepsTheLastOnes) {
  DropBook book;
  for (std::uint16_t i = 0; i < 300; ++i) {
    book.add(
        {.reason = i % 3 == 0 ? DropReason::kNoRoute : DropReason::kPortDown, .attribute_id = i});
  }
  EXPECT_EQ(book.count(DropReason::kNoRoute), 100U);
  EXPECT_EQ(book.count(DropReason::kPortDown), 200U);
  EXPECT_EQ(book.count(DropReason::kNodeOff), 0U);
  const auto recent = book.recent();
  ASSERT_EQ(recent.size(), DropBook::kRecentMax);
  for (std::size_t i = 0; i < recent.size(); ++i) EXPECT_EQ(recent[i].attribute_id, 300 - 256 + i);
}

TEST(DropBook, EachReasonHasANameOfItsOwn) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kDropReasonCount; ++i) {
    names.insert(name_of(DropReason{static_cast<std::uint8_t>(i)}));
  }
  EXPECT_EQ(names.size(), kDropReasonCount);
  EXPECT_FALSE(names.contains("?"));
}

}  // namespace
}  // namespace verbatim::fabric
