// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/udp.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::hex;

TEST(Udp, IsWrittenAsTheFigureShows) {
  EXPECT_EQ(emitted(Udp{.source_port = 0xc121, .octets = 24}), hex("c121 12b7 0018 0000"));
  EXPECT_EQ(emitted(Udp{.source_port = 1, .destination_port = 2, .octets = 3, .checksum = 4}),
            hex("0001 0002 0003 0004"));
}

TEST(UdpView, ReadsEveryField) {
  const auto octets = hex("c121 12b7 0018 abcd 99");
  const auto view = UdpView::parse(octets);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->source_port(), 0xc121);
  EXPECT_EQ(view->destination_port(), kRoceUdpPort);
  EXPECT_EQ(view->octets(), 24);
  EXPECT_EQ(view->checksum(), 0xabcd);
}

TEST(UdpView, RefusesEveryTruncation) {
  const auto octets = hex("c121 12b7 0018 0000");
  for (std::size_t size = 0; size < octets.size(); ++size) {
    const auto view = UdpView::parse(std::span(octets).first(size));
    ASSERT_FALSE(view);
    EXPECT_EQ(view.error(), WireError::kTruncated);
  }
}

TEST(Udp, SurvivesTheRoundTrip) {
  Prng prng(12);
  for (int i = 0; i < 1000; ++i) {
    const auto octets = test::random_octets(prng, Udp::kSize);
    EXPECT_EQ(emitted(UdpView::parse(octets)->value()), octets);
  }
}

// The words of both pseudo headers and of the segment, added by hand.
TEST(UdpChecksum, CoversTheAddresses) {
  const auto v4 = hex("c000 12b7 000c 0000 01020304");
  const Gid a = test::gid("00000000000000000000ffff0a000001");
  const Gid b = test::gid("00000000000000000000ffff0a000002");
  EXPECT_EQ(udp_checksum(a, b, v4), 0x1516);
  const Gid c = test::gid("fe800000000000000000000000000001");
  const Gid d = test::gid("fe800000000000000000000000000002");
  EXPECT_EQ(udp_checksum(c, d, v4), 0x2c14);
  EXPECT_NE(udp_checksum(c, c, v4), udp_checksum(c, d, v4));
}

TEST(UdpChecksum, IsAllOnesOverASegmentThatHoldsIt) {
  Prng prng(13);
  for (int i = 0; i < 1000; ++i) {
    const Gid a = test::random_gid(prng);
    const Gid b = test::random_gid(prng);
    auto segment = test::random_octets(prng, prng.between(8, 99));
    segment[6] = segment[7] = std::byte{0};
    const std::uint16_t sum = udp_checksum(a, b, segment);
    EXPECT_NE(sum, 0) << "zero means that there is none";
    store_be_at<std::uint16_t>(segment.data() + 6, sum);
    EXPECT_EQ(udp_checksum(a, b, segment), 0xffff);
  }
}

}  // namespace
}  // namespace verbatim::wire
