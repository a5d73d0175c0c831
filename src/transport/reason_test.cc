// SPDX-License-Identifier: Apache-2.0
#include "transport/reason.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace verbatim::transport {
namespace {

TEST(Reason, EveryRefusalOfMemoryKeepsItsName) {
  for (std::size_t i = 0; i < memory::kRefusalCount; ++i) {
    const auto refusal = memory::Refusal(static_cast<std::uint8_t>(i));
    EXPECT_EQ(static_cast<std::uint32_t>(reason_of(refusal)), 0x100 + i);
    EXPECT_STREQ(describe(reason_of(refusal)), name_of(refusal));
  }
}

TEST(Reason, EveryRefusalOfABindKeepsItsName) {
  for (std::size_t i = 0; i < memory::kBindRefusalCount; ++i) {
    const auto refusal = memory::BindRefusal(static_cast<std::uint8_t>(i));
    EXPECT_EQ(static_cast<std::uint32_t>(reason_of(refusal)), 0x200 + i);
    EXPECT_STREQ(describe(reason_of(refusal)), name_of(refusal));
  }
}

TEST(Reason, NoTwoReasonsHaveTheSameDescription) {
  std::set<std::string> said;
  std::uint32_t count = 0;
  for (std::uint32_t raw = 0; raw < 0x100; ++raw) {
    const std::string phrase = describe(Reason(raw));
    if (phrase == "?") continue;
    ++count;
    EXPECT_TRUE(said.insert(phrase).second) << raw << ": " << phrase;
  }
  EXPECT_EQ(count, static_cast<std::uint32_t>(Reason::kNotEight) + 1);
}

TEST(Reason, UndefinedNumbersAreDescribedAsUnknown) {
  for (const std::uint32_t raw :
       {0xffU, 0x100U + static_cast<std::uint32_t>(memory::kRefusalCount), 0x1ffU,
        0x200U + static_cast<std::uint32_t>(memory::kBindRefusalCount), 0x300U, 0xffff'ffffU}) {
    EXPECT_STREQ(describe(Reason(raw)), "?") << raw;
  }
}

}  // namespace
}  // namespace verbatim::transport
