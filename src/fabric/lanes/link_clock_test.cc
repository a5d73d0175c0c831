// SPDX-License-Identifier: Apache-2.0
#include "fabric/lanes/link_clock.h"

#include <gtest/gtest.h>

namespace verbatim::fabric {
namespace {

constexpr Instant kStart = Instant::at(Duration(1'000));
constexpr LinkRate kSdr{.width = LinkWidth::k1x, .speed = LinkSpeed::kSdr};
constexpr LinkRate kHdr{.width = LinkWidth::k4x, .speed = LinkSpeed::kHdr};
constexpr LinkRate kNdr{.width = LinkWidth::k12x, .speed = LinkSpeed::kNdr};

LinkClock clock_of(const LinkRate& rate, std::uint32_t slowdown = 1) {
  LinkClock clock;
  clock.set_rate(rate, slowdown);
  return clock;
}

TEST(LinkClock, APacketKeepsTheLinkBusyForItsOctets) {
  LinkClock clock = clock_of(kSdr);  // 2 Gb/s: 4 ns for an octet
  EXPECT_TRUE(clock.is_free(kStart, Duration{0}));
  clock.send(kStart, 1000);
  EXPECT_EQ(clock.busy_until(), kStart + Duration(4'000));
  EXPECT_FALSE(clock.is_free(kStart + Duration(3'999), Duration{0}));
  EXPECT_TRUE(clock.is_free(kStart + Duration(4'000), Duration{0}));
}

TEST(LinkClock, ALinkThatWasIdleBeginsWhenThePacketDoes) {
  LinkClock clock = clock_of(kSdr);
  clock.send(kStart, 10);
  clock.send(kStart + Duration(500), 10);
  EXPECT_EQ(clock.busy_until(), kStart + Duration(540));
}

TEST(LinkClock, MayBeAheadOfTheTimeByAGrain) {
  LinkClock clock = clock_of(kSdr);
  clock.send(kStart, 1000);
  EXPECT_TRUE(clock.is_free(kStart, Duration(4'000)));
  clock.send(kStart, 1000);
  EXPECT_EQ(clock.busy_until(), kStart + Duration(8'000)) << "no octet is for nothing";
  EXPECT_FALSE(clock.is_free(kStart, Duration(4'000)));
}

/// 28 octets take 0.19 ns on the fastest link.
TEST(LinkClock, ManyShortPacketsTakeAsLongAsTheirOctets) {
  LinkClock clock = clock_of(kNdr);
  for (int i = 0; i < 1'000'000; ++i) clock.send(kStart, 30);
  const double nanoseconds = 30e6 * 8 / 1'200;
  EXPECT_NEAR(static_cast<double>((clock.busy_until() - kStart).count()), nanoseconds,
              nanoseconds / 10'000);
}

TEST(LinkClock, IsSlowerByAWholeNumber) {
  LinkClock clock = clock_of(kHdr, 100);
  clock.send(kStart, 4'126);
  EXPECT_NEAR(static_cast<double>((clock.busy_until() - kStart).count()), 4'126 * 0.04 * 100, 2);
}

TEST(LinkClock, WithoutARatePacketsTakeNoTime) {
  LinkClock clock = clock_of(kSdr, 0);
  clock.send(kStart, 1'000'000);
  EXPECT_TRUE(clock.is_free(kStart, Duration{0}));
  EXPECT_EQ(clock.words_in(Duration(1'000)), 0U);
}

TEST(LinkClock, KnowsWhatItCouldHaveSent) {
  EXPECT_EQ(clock_of(kSdr).words_in(Duration(1'600)), 100U);
  EXPECT_EQ(clock_of(kSdr).words_in(Duration(-1)), 0U);
  const LinkClock hdr = clock_of(kHdr);
  EXPECT_NEAR(static_cast<double>(hdr.words_in(std::chrono::hours(24))), 86'400 * 6.25e9, 1e9);
}

}  // namespace
}  // namespace verbatim::fabric
