// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/ip_cm_header.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::hex;

const auto kIpv4Octets =
    hex("00 40 be16"
        "000000000000000000000000 0a000001"
        "000000000000000000000000 0a000002");
const auto kIpv6Octets =
    hex("00 60 be16"
        "fe80000000000000 0011223344556677"
        "fd00000000000000 8899aabbccddeeff");
const auto kIpv4 = IpCmHeader::between(test::gid("00000000000000000000ffff0a000001"),
                                       test::gid("00000000000000000000ffff0a000002"), 0xbe16);
const auto kIpv6 = IpCmHeader::between(test::gid("fe800000000000000011223344556677"),
                                       test::gid("fd000000000000008899aabbccddeeff"), 0xbe16);

TEST(IpCmHeader, IsWrittenAsTheFigureShows) {
  EXPECT_EQ(emitted(kIpv4), kIpv4Octets);
  EXPECT_EQ(emitted(kIpv6), kIpv6Octets);
}

TEST(IpCmHeader, ReadsWhatItWrites) {
  for (const auto& [octets, header] : {std::pair(kIpv4Octets, kIpv4), {kIpv6Octets, kIpv6}}) {
    const auto parsed = IpCmHeader::parse(octets);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, header);
  }
}

TEST(IpCmHeader, MayBeFollowedByTheUsersData) {
  auto octets = kIpv4Octets;
  octets.resize(92, std::byte{0xaa});
  const auto parsed = IpCmHeader::parse(octets);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, kIpv4);
}

TEST(IpCmHeader, IgnoresReservedBitsAndWhatIpv4DoesNotUse) {
  auto octets = kIpv4Octets;
  octets[1] |= std::byte{0x0f};
  for (std::size_t i = 0; i < 12; ++i) octets[4 + i] = octets[20 + i] = std::byte{0xff};
  const auto parsed = IpCmHeader::parse(octets);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, kIpv4);
  EXPECT_EQ(emitted(*parsed), kIpv4Octets);
}

TEST(IpCmHeader, RefusesOtherVersions) {
  for (unsigned version = 0; version < 256; ++version) {
    auto octets = kIpv4Octets;
    octets[0] = static_cast<std::byte>(version);
    EXPECT_EQ(IpCmHeader::parse(octets).ok(), version == 0);
    octets = kIpv4Octets;
    octets[1] = static_cast<std::byte>(version);
    const auto parsed = IpCmHeader::parse(octets);
    ASSERT_EQ(parsed.ok(), version >> 4 == 4 || version >> 4 == 6);
    if (!parsed) {
      EXPECT_EQ(parsed.error(), WireError::kBadVersion);
    }
  }
}

TEST(IpCmHeader, RefusesEveryTruncation) {
  for (std::size_t size = 0; size < IpCmHeader::kSize; ++size) {
    const auto parsed = IpCmHeader::parse(std::span(kIpv6Octets).first(size));
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error(), WireError::kTruncated);
  }
}

TEST(IpCmHeader, SurvivesTheRoundTrip) {
  Prng prng(64);
  for (int i = 0; i < 1000; ++i) {
    auto source = test::random_gid(prng);
    auto destination = test::random_gid(prng);
    if (prng.one_in(2)) {
      for (auto* gid : {&source, &destination}) {
        std::fill_n(gid->octets.begin(), 10, std::uint8_t{0});
        gid->octets[10] = gid->octets[11] = 0xff;
      }
    }
    const auto header = IpCmHeader::between(source, destination, test::random<std::uint16_t>(prng));
    const auto parsed = IpCmHeader::parse(emitted(header));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, header);
  }
}

}  // namespace
}  // namespace verbatim::wire
