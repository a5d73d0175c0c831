// SPDX-License-Identifier: Apache-2.0
#include "wire/print/text_line.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace verbatim::wire {
namespace {

TEST(TextLine, WritesNumbersAsPeopleReadThem) {
  std::array<char, 100> buffer;
  TextLine line(buffer);
  line.decimal(0).text(" ").decimal(1234567890).text(" ").hex(0).text(" ").hex(0xabc, 6);
  EXPECT_EQ(line.view(), "0 1234567890 0x0 0x000abc");
}

TEST(TextLine, WritesTheLargestNumbers) {
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
  std::array<char, 100> buffer;
  EXPECT_EQ(TextLine(buffer).decimal(kMax).view(), "18446744073709551615");
  EXPECT_EQ(TextLine(buffer).hex(kMax).view(), "0xffffffffffffffff");
  EXPECT_EQ(TextLine(buffer).hex(1, 99).view(), "0x0000000000000001") << "no wider than a number";
}

TEST(TextLine, CutsWhatDoesNotFit) {
  std::array<char, 5> buffer;
  EXPECT_EQ(TextLine(buffer).text("abc").decimal(12345).text("more").view(), "abc12");
  EXPECT_EQ(TextLine(std::span<char>()).text("abc").hex(1).view(), "");
}

}  // namespace
}  // namespace verbatim::wire
