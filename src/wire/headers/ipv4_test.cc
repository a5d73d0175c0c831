// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/ipv4.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::hex;

// The header of a packet that Linux sent, checksum and all.
constexpr std::string_view kFromLinux = "45 68 002c 5a5f 4000 40 11 cbf7 0a000001 0a000002";

TEST(Ipv4, IsWrittenWithItsChecksum) {
  EXPECT_EQ(emitted(Ipv4{.traffic_class = 0x68,
                         .total_octets = 44,
                         .identification = 0x5a5f,
                         .source = {{10, 0, 0, 1}},
                         .destination = {{10, 0, 0, 2}}}),
            hex(kFromLinux));
}

TEST(Ipv4, MayBeFragmentedWhereAsked) {
  const auto octets = emitted(Ipv4{.dont_fragment = false});
  EXPECT_EQ(octets[6], std::byte{0});
  EXPECT_EQ(emitted(Ipv4{})[6], std::byte{0x40});
}

TEST(Ipv4View, ReadsEveryField) {
  const auto octets = hex(kFromLinux);
  const auto view = Ipv4View::parse(octets);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->header_octets(), 20U);
  EXPECT_FALSE(view->has_options());
  EXPECT_EQ(view->traffic_class(), 0x68);
  EXPECT_EQ(view->total_octets(), 44);
  EXPECT_EQ(view->identification(), 0x5a5f);
  EXPECT_TRUE(view->dont_fragment());
  EXPECT_FALSE(view->is_fragment());
  EXPECT_EQ(view->time_to_live(), 64);
  EXPECT_EQ(view->protocol(), IpProtocol::kUdp);
  EXPECT_EQ(view->checksum(), 0xcbf7);
  EXPECT_TRUE(view->checksum_holds());
  EXPECT_EQ(view->source(), (Ipv4Address{{10, 0, 0, 1}}));
  EXPECT_EQ(view->destination(), (Ipv4Address{{10, 0, 0, 2}}));
}

TEST(Ipv4View, SeesOneFlippedBitAnywhere) {
  for (std::size_t bit = 8; bit < 8 * Ipv4::kSize; ++bit) {
    auto octets = hex(kFromLinux);
    octets[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto view = Ipv4View::parse(octets);
    ASSERT_TRUE(view);
    EXPECT_FALSE(view->checksum_holds()) << bit;
  }
}

TEST(Ipv4View, KnowsAFragment) {
  auto octets = hex(kFromLinux);
  octets[6] = std::byte{0x20};  // more to come
  EXPECT_TRUE(Ipv4View::parse(octets)->is_fragment());
  octets[6] = std::byte{0x00};
  octets[7] = std::byte{0x01};  // some went before
  EXPECT_TRUE(Ipv4View::parse(octets)->is_fragment());
}

TEST(Ipv4View, ChecksumCoversOptions) {
  // One word of options (three NOPs and an end), the checksum adjusted by hand: 0xcbf7 for the
  // header without them, less 0x0100 for the IHL and 0x0101 + 0x0100 for the words.
  auto octets = hex("46 68 002c 5a5f 4000 40 11 c8f6 0a000001 0a000002 01010100");
  const auto view = Ipv4View::parse(octets);
  ASSERT_TRUE(view);
  EXPECT_TRUE(view->has_options());
  EXPECT_EQ(view->header_octets(), 24U);
  EXPECT_TRUE(view->checksum_holds());
}

TEST(Ipv4View, RefusesEveryVersionButFour) {
  for (unsigned version = 0; version < 16; ++version) {
    auto octets = hex(kFromLinux);
    octets[0] = static_cast<std::byte>(version << 4 | 5);
    const auto view = Ipv4View::parse(octets);
    ASSERT_EQ(view.ok(), version == 4);
    if (!view) {
      EXPECT_EQ(view.error(), WireError::kBadVersion);
    }
  }
}

TEST(Ipv4View, RefusesAHeaderLengthThatCannotBe) {
  for (unsigned words = 0; words < 16; ++words) {
    auto octets = hex(kFromLinux);
    octets[0] = static_cast<std::byte>(0x40 | words);
    const auto view = Ipv4View::parse(octets);
    ASSERT_EQ(view.ok(), words == 5);
    if (!view) {
      EXPECT_EQ(view.error(), words < 5 ? WireError::kBadLength : WireError::kTruncated);
    }
  }
}

TEST(Ipv4View, RefusesEveryTruncation) {
  const auto octets = hex(kFromLinux);
  for (std::size_t size = 0; size < octets.size(); ++size) {
    const auto view = Ipv4View::parse(std::span(octets).first(size));
    ASSERT_FALSE(view);
    EXPECT_EQ(view.error(), WireError::kTruncated);
  }
}

TEST(Ipv4, SurvivesTheRoundTrip) {
  Prng prng(11);
  for (int i = 0; i < 1000; ++i) {
    const Ipv4 sent{.traffic_class = test::random<std::uint8_t>(prng),
                    .total_octets = test::random<std::uint16_t>(prng),
                    .identification = test::random<std::uint16_t>(prng),
                    .dont_fragment = prng.one_in(2),
                    .time_to_live = test::random<std::uint8_t>(prng),
                    .protocol = IpProtocol{test::random<std::uint8_t>(prng)},
                    .source = ipv4_of(gid_of({{test::random<std::uint8_t>(prng), 2, 3, 4}})),
                    .destination = {{5, 6, 7, test::random<std::uint8_t>(prng)}}};
    const auto octets = emitted(sent);
    const auto view = Ipv4View::parse(octets);
    ASSERT_TRUE(view);
    EXPECT_TRUE(view->checksum_holds());
    EXPECT_EQ(view->traffic_class(), sent.traffic_class);
    EXPECT_EQ(view->source(), sent.source);
    EXPECT_EQ(emitted(view->value()), octets);
  }
}

TEST(Ipv4Address, IsAMappedGid) {
  EXPECT_EQ(gid_of({{10, 0, 0, 1}}), test::gid("00000000000000000000ffff0a000001"));
  EXPECT_EQ(ipv4_of(test::gid("00000000000000000000ffffc0a80102")),
            (Ipv4Address{{192, 168, 1, 2}}));
}

}  // namespace
}  // namespace verbatim::wire
