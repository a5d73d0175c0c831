// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/ethernet.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::gid;
using test::hex;

TEST(Ethernet, IsWrittenAsTheFigureShows) {
  EXPECT_EQ(emitted(Ethernet{.destination = {{0x52, 0x54, 0, 0, 0, 2}},
                             .source = {{0x52, 0x54, 0, 0, 0, 1}},
                             .type = EtherType::kRoceV1}),
            hex("525400000002 525400000001 8915"));
  EXPECT_EQ(emitted(Ethernet{.type = EtherType::kIpv4}), hex("000000000000 000000000000 0800"));
  EXPECT_EQ(emitted(Ethernet{.type = EtherType::kIpv6}), hex("000000000000 000000000000 86dd"));
}

TEST(EthernetView, ReadsEveryField) {
  const auto octets = hex("010203040506 111213141516 0800 4500");
  const auto view = EthernetView::parse(octets);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->destination(), (MacAddress{{1, 2, 3, 4, 5, 6}}));
  EXPECT_EQ(view->source(), (MacAddress{{0x11, 0x12, 0x13, 0x14, 0x15, 0x16}}));
  EXPECT_EQ(view->type(), EtherType::kIpv4);
  EXPECT_EQ(test::Octets(view->payload().begin(), view->payload().end()), hex("4500"));
}

TEST(EthernetView, RefusesEveryTruncation) {
  const auto octets = hex("010203040506 111213141516 0800");
  for (std::size_t size = 0; size < octets.size(); ++size) {
    const auto view = EthernetView::parse(std::span(octets).first(size));
    ASSERT_FALSE(view);
    EXPECT_EQ(view.error(), WireError::kTruncated);
  }
}

TEST(Ethernet, SurvivesTheRoundTrip) {
  Prng prng(14);
  for (int i = 0; i < 1000; ++i) {
    const auto octets = test::random_octets(prng, Ethernet::kSize);
    EXPECT_EQ(emitted(EthernetView::parse(octets)->value()), octets);
  }
}

TEST(MacAddress, OfAGroupFollowsItsAddress) {
  EXPECT_EQ(multicast_mac_of(gid("00000000000000000000ffff efff0203")),
            (MacAddress{{0x01, 0x00, 0x5e, 0x7f, 0x02, 0x03}}))
      << "23 bits, so the first of the three octets loses one";
  EXPECT_EQ(multicast_mac_of(gid("ff0e0000000000000000000001020304")),
            (MacAddress{{0x33, 0x33, 1, 2, 3, 4}}));
}

TEST(MacAddress, SyntheticForACaptureShowsTheHost) {
  EXPECT_EQ(synthetic_mac_of(gid("00000000000000000000ffff 0a000001")),
            (MacAddress{{0x02, 0, 10, 0, 0, 1}}));
  EXPECT_EQ(synthetic_mac_of(gid("fe80000000000000 505400fffe000002")),
            (MacAddress{{0x02, 0, 0xfe, 0, 0, 2}}));
  EXPECT_EQ(synthetic_mac_of(gid("ff0e0000000000000000000001020304")),
            (MacAddress{{0x33, 0x33, 1, 2, 3, 4}}));
}

}  // namespace
}  // namespace verbatim::wire
