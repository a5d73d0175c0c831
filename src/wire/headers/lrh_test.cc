// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/lrh.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::hex;

TEST(Lrh, IsWrittenAsTheFigureShows) {
  EXPECT_EQ(emitted(Lrh{.lane = VirtualLane{7},
                        .level = ServiceLevel{1},
                        .next_header = LinkNextHeader::kBth,
                        .destination = Lid{0x375c},
                        .packet_words = 14,
                        .source = Lid{0x17d2}}),
            hex("70 12 375c 000e 17d2"));
  EXPECT_EQ(emitted(Lrh{.lane = VirtualLane::kManagement,
                        .level = ServiceLevel{15},
                        .next_header = LinkNextHeader::kGrh,
                        .destination = Lid::kPermissive,
                        .packet_words = 0xffff,
                        .source = Lid::kFirstMulticast}),
            hex("f0 f3 ffff 07ff c000"))
      << "the length has eleven bits";
}

TEST(LrhView, ReadsEveryFieldAndIgnoresReservedBits) {
  const auto octets = hex("30 5d 0102 f823 0304");
  const auto view = LrhView::parse(octets);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->lane(), VirtualLane{3});
  EXPECT_EQ(view->level(), ServiceLevel{5});
  EXPECT_EQ(view->next_header(), LinkNextHeader::kRawIpv6);
  EXPECT_EQ(view->destination(), Lid{0x0102});
  EXPECT_EQ(view->packet_words(), 0x023);
  EXPECT_EQ(view->source(), Lid{0x0304});
  EXPECT_EQ(emitted(view->value()), hex("30 51 0102 0023 0304"));
}

TEST(LrhView, RefusesEveryLinkVersionButZero) {
  for (unsigned version = 1; version < 16; ++version) {
    auto octets = hex("70 12 375c 000e 17d2");
    octets[0] |= static_cast<std::byte>(version);
    const auto view = LrhView::parse(octets);
    ASSERT_FALSE(view);
    EXPECT_EQ(view.error(), WireError::kBadVersion);
  }
}

TEST(LrhView, RefusesEveryTruncation) {
  const auto octets = hex("70 12 375c 000e 17d2");
  for (std::size_t size = 0; size < octets.size(); ++size) {
    const auto view = LrhView::parse(std::span(octets).first(size));
    ASSERT_FALSE(view);
    EXPECT_EQ(view.error(), WireError::kTruncated);
  }
}

TEST(Lrh, SurvivesTheRoundTrip) {
  Prng prng(6);
  for (int i = 0; i < 1000; ++i) {
    auto octets = test::random_octets(prng, Lrh::kSize);
    octets[0] &= std::byte{0xf0};
    octets[1] &= std::byte{0xf3};
    octets[4] &= std::byte{0x07};
    const auto view = LrhView::parse(octets);
    ASSERT_TRUE(view);
    EXPECT_EQ(emitted(view->value()), octets);
  }
}

}  // namespace
}  // namespace verbatim::wire
