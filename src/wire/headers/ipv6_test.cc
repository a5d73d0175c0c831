// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/ipv6.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::hex;

TEST(Ipv6, IsWrittenAsTheFigureShows) {
  EXPECT_EQ(emitted(Ipv6{.traffic_class = 0xab,
                         .flow_label = 0xfff12345,
                         .payload_octets = 0x0028,
                         .hop_limit = 63,
                         .source = test::gid("fe80000000000000 505400fffe000001"),
                         .destination = test::gid("fe80000000000000 505400fffe000002")}),
            hex("6ab12345 0028 11 3f"
                "fe80000000000000 505400fffe000001 fe80000000000000 505400fffe000002"))
      << "the flow label has twenty bits";
}

TEST(Ipv6View, ReadsEveryField) {
  const auto octets =
      hex("6cdabcde 0123 3a 07 000102030405060708090a0b0c0d0e0f 101112131415161718191a1b1c1d1e1f");
  const auto view = Ipv6View::parse(octets);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->traffic_class(), 0xcd);
  EXPECT_EQ(view->flow_label(), 0xabcdeU);
  EXPECT_EQ(view->payload_octets(), 0x0123);
  EXPECT_EQ(view->next_header(), IpProtocol{0x3a});
  EXPECT_EQ(view->hop_limit(), 7);
  EXPECT_EQ(view->source(), test::gid("000102030405060708090a0b0c0d0e0f"));
  EXPECT_EQ(view->destination(), test::gid("101112131415161718191a1b1c1d1e1f"));
}

TEST(Ipv6View, RefusesEveryVersionButSix) {
  for (unsigned version = 0; version < 16; ++version) {
    test::Octets octets(Ipv6::kSize);
    octets[0] = static_cast<std::byte>(version << 4);
    const auto view = Ipv6View::parse(octets);
    ASSERT_EQ(view.ok(), version == 6);
    if (!view) {
      EXPECT_EQ(view.error(), WireError::kBadVersion);
    }
  }
}

TEST(Ipv6View, RefusesEveryTruncation) {
  test::Octets octets(Ipv6::kSize, std::byte{0x60});
  for (std::size_t size = 0; size < octets.size(); ++size) {
    const auto view = Ipv6View::parse(std::span(octets).first(size));
    ASSERT_FALSE(view);
    EXPECT_EQ(view.error(), WireError::kTruncated);
  }
}

TEST(Ipv6, SurvivesTheRoundTrip) {
  Prng prng(8);
  for (int i = 0; i < 1000; ++i) {
    auto octets = test::random_octets(prng, Ipv6::kSize);
    octets[0] = (octets[0] & std::byte{0x0f}) | std::byte{0x60};
    const auto view = Ipv6View::parse(octets);
    ASSERT_TRUE(view);
    EXPECT_EQ(emitted(view->value()), octets);
  }
}

}  // namespace
}  // namespace verbatim::wire
