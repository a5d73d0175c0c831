// SPDX-License-Identifier: Apache-2.0
#include "wire/capture/erf.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::hex;
using test::Octets;

Octets octets_of(const ErfHeader& header) {
  Octets octets(ErfHeader::kSize);
  header.emit(std::span(octets).first<ErfHeader::kSize>());
  return octets;
}

TEST(ErfHeader, IsAsTheFormatSays) {
  // 5.5 s: the fraction is half of 2^32.
  EXPECT_EQ(octets_of({.unix_nanoseconds = 5'500'000'000, .packet_octets = 30}),
            hex("00000080 05000000 15 04 002e 0000 001e"));
  EXPECT_EQ(octets_of({.interface = 1, .has_error = true, .packet_octets = 0x1000}),
            hex("00000000 00000000 15 15 1010 0000 1000"));
}

TEST(ErfHeader, TheLastNanosecondOfASecondIsInIt) {
  const Octets octets = octets_of({.unix_nanoseconds = 1'999'999'999});
  EXPECT_EQ(Octets(octets.begin() + 3, octets.begin() + 8), hex("ff 01000000"));
}

}  // namespace
}  // namespace verbatim::wire
