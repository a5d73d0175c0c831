// SPDX-License-Identifier: Apache-2.0
#include "base/bulk_copy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace verbatim {
namespace {

constexpr std::size_t kMargin = 128;

std::vector<std::byte> numbered(std::size_t octets) {
  std::vector<std::byte> result(octets);
  std::uint32_t state = 1;
  for (std::byte& octet : result) {
    state = state * 1664525 + 1013904223;
    octet = static_cast<std::byte>(state >> 24);
  }
  return result;
}

void expect_exact_copy(std::size_t octets, std::size_t to_offset, std::size_t from_offset) {
  SCOPED_TRACE(::testing::Message()
               << octets << " octets from +" << from_offset << " to +" << to_offset);
  const auto from = numbered(octets + kMargin);
  std::vector<std::byte> to(octets + 2 * kMargin, std::byte{0xee});
  auto expected = to;
  std::memcpy(expected.data() + to_offset, from.data() + from_offset, octets);
  bulk_copy(to.data() + to_offset, from.data() + from_offset, octets);
  EXPECT_TRUE(to == expected);
}

TEST(BulkCopy, CopiesAllAndNothingElse) {
  constexpr std::size_t kLarge = std::size_t{128} << 10;
  for (const std::size_t octets :
       {std::size_t{0}, std::size_t{1}, std::size_t{63}, kLarge - 1, kLarge, kLarge + 1,
        kLarge + 63, kLarge + 64, kLarge + 65, 2 * kLarge, 2 * kLarge + 127}) {
    for (const std::size_t offset : {0UL, 1UL, 8UL, 63UL, 64UL}) {
      expect_exact_copy(octets, offset, 0);
      expect_exact_copy(octets, 0, offset);
      expect_exact_copy(octets, offset, offset);
    }
  }
}

}  // namespace
}  // namespace verbatim
