// SPDX-License-Identifier: Apache-2.0
#include "wire/crc/internet_checksum.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::hex;

// RFC 1071, section 3: these octets sum up to 0xddf2.
TEST(InternetChecksum, AgreesWithTheExampleOfTheRfc) {
  EXPECT_EQ(InternetChecksum().add(hex("0001 f203 f4f5 f6f7")).finish(), 0x220d);
}

TEST(InternetChecksum, AnOddOctetIsTheUpperHalfOfAWord) {
  EXPECT_EQ(InternetChecksum().add(hex("0102 03")).finish(),
            InternetChecksum().add(hex("0102 0300")).finish());
}

TEST(InternetChecksum, OfNothingIsAllOnes) { EXPECT_EQ(InternetChecksum().finish(), 0xffff); }

TEST(InternetChecksum, IsZeroOverOctetsThatContainIt) {
  Prng prng(9);
  for (int i = 0; i < 1000; ++i) {
    auto octets = test::random_octets(prng, 2 * prng.between(1, 100));
    const std::uint16_t sum = InternetChecksum().add(octets).finish();
    EXPECT_EQ(InternetChecksum().add(octets).add(sum).finish(), 0);
  }
}

TEST(InternetChecksum, DoesNotCareWhereAnEvenRunIsCut) {
  Prng prng(10);
  const auto octets = test::random_octets(prng, 60);
  const std::uint16_t whole = InternetChecksum().add(octets).finish();
  for (std::size_t cut = 0; cut <= octets.size(); cut += 2) {
    EXPECT_EQ(InternetChecksum()
                  .add(std::span(octets).first(cut))
                  .add(std::span(octets).subspan(cut))
                  .finish(),
              whole);
  }
}

}  // namespace
}  // namespace verbatim::wire
