// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/ids.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

TEST(PathMtu, IsAsTheVerbsNumberIt) {
  EXPECT_EQ(octets_of(PathMtu{1}), 256U);
  EXPECT_EQ(octets_of(PathMtu{2}), 512U);
  EXPECT_EQ(octets_of(PathMtu{3}), 1024U);
  EXPECT_EQ(octets_of(PathMtu{4}), 2048U);
  EXPECT_EQ(octets_of(PathMtu{5}), 4096U);
}

TEST(PKey, NeedsOneFullMemberOfTheSamePartition) {
  EXPECT_TRUE(pkeys_match(PKey{0xffff}, PKey{0xffff}));
  EXPECT_TRUE(pkeys_match(PKey{0xffff}, PKey{0x7fff}));
  EXPECT_TRUE(pkeys_match(PKey{0x7fff}, PKey{0xffff}));
  EXPECT_FALSE(pkeys_match(PKey{0x7fff}, PKey{0x7fff})) << "two limited members";
  EXPECT_FALSE(pkeys_match(PKey{0x8001}, PKey{0xffff})) << "two partitions";
  EXPECT_FALSE(pkeys_match(PKey{0x8000}, PKey{0x8000})) << "partition zero is invalid";
}

TEST(Gid, KnowsAnIpv4Address) {
  EXPECT_TRUE(test::gid("00000000000000000000ffff 0a000001").is_ipv4_mapped());
  EXPECT_FALSE(test::gid("fe80000000000000 505400fffe000001").is_ipv4_mapped());
  EXPECT_FALSE(test::gid("00000000000000000000fffe 0a000001").is_ipv4_mapped());
  EXPECT_FALSE(test::gid("00000000000000000100ffff 0a000001").is_ipv4_mapped());
}

TEST(Gid, KnowsAGroupOfEitherFamily) {
  EXPECT_TRUE(test::gid("ff0e0000000000000000000000000001").is_multicast());
  EXPECT_FALSE(test::gid("fe800000000000000000000000000001").is_multicast());
  EXPECT_TRUE(test::gid("00000000000000000000ffff e0000001").is_multicast());
  EXPECT_TRUE(test::gid("00000000000000000000ffff efffffff").is_multicast());
  EXPECT_FALSE(test::gid("00000000000000000000ffff f0000001").is_multicast());
  EXPECT_FALSE(test::gid("00000000000000000000ffff 0a000001").is_multicast());
}

}  // namespace
}  // namespace verbatim::wire
