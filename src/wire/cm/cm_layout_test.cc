// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/cm_layout.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

/// The first octets of a message body; the rest is zero.
std::array<std::byte, Mad::kDataSize> body(std::string_view text = "") {
  std::array<std::byte, Mad::kDataSize> octets{};
  std::ranges::copy(test::hex(text), octets.begin());
  return octets;
}

TEST(CmBits, CountsFromTheMostSignificantBit) {
  const auto octets = body("80 01 2a 12345678");
  EXPECT_EQ((CmBits<0, 0, 1>::load(octets)), 1U);
  EXPECT_EQ((CmBits<0, 1, 7>::load(octets)), 0U);
  EXPECT_EQ((CmBits<1, 7, 1>::load(octets)), 1U);
  EXPECT_EQ((CmBits<2, 2, 6>::load(octets)), 0x2aU);
  EXPECT_EQ((CmBits<2, 2, 3>::load(octets)), 5U);
  EXPECT_EQ((CmBits<3, 0, 32>::load(octets)), 0x12345678U);
  EXPECT_EQ((CmBits<3, 4, 20>::load(octets)), 0x23456U);
  EXPECT_EQ((CmBits<0, 0, 56>::load(octets)), 0x80012a12345678U);
}

TEST(CmBits, WritesNoBitOutsideOfItself) {
  auto octets = body();
  CmBits<1, 3, 10>::store(octets, ~std::uint64_t{0});
  EXPECT_EQ(octets, body("00 1f f8"));
  octets = body();
  CmBits<1, 3, 10>::store(octets, 0x201);
  EXPECT_EQ(octets, body("00 10 08"));
  octets = body();
  CmBits<8, 0, 64>::store(octets, 0x0123456789abcdef);
  EXPECT_EQ(octets, body("0000000000000000 0123456789abcdef"));
}

TEST(CmBits, PutsTheLastBitOfAMessageWhereItBelongs) {
  auto octets = body();
  CmBits<231, 7, 1>::store(octets, 1);
  auto expected = body();
  expected.back() = std::byte{1};
  EXPECT_EQ(octets, expected);
}

TEST(CmBits, TakesAPieceOfANumber) {
  auto octets = body();
  CmWriter write(octets);
  const std::uint32_t whole = 0xff'a1a2a3;
  write(CmBits<0, 0, 8, 16>{}, whole);
  write(CmBits<2, 0, 8, 8>{}, whole);
  write(CmBits<4, 0, 8, 0>{}, whole);
  EXPECT_EQ(octets, body("a1 00 a2 00 a3"));

  const CmReader read(octets);
  std::uint32_t number = 0;
  read(CmBits<4, 0, 8, 0>{}, number);
  EXPECT_EQ(number, 0xa3U);
  read(CmBits<0, 0, 8, 16>{}, number);
  read(CmBits<2, 0, 8, 8>{}, number);
  EXPECT_EQ(number, 0xa1a2a3U);
}

TEST(CmReader, ReplacesWhatANumberWasBefore) {
  const auto octets = body("8001");
  PKey pkey = PKey::kDefault;
  CmReader{octets}(CmBits<0, 0, 16>{}, pkey);
  EXPECT_EQ(pkey, PKey{0x8001});
}

}  // namespace
}  // namespace verbatim::wire
