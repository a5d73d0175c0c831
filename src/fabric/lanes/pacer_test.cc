// SPDX-License-Identifier: Apache-2.0
#include "fabric/lanes/pacer.h"

#include <gtest/gtest.h>

#include "fabric/lanes/path_rate.h"

namespace verbatim::fabric {
namespace {

constexpr std::uint32_t kMegabits = 2'000;  // 4 ns for an octet
constexpr std::uint32_t kOctets = 1'000;
constexpr Duration kPacket{4'000};
constexpr Instant kStart = Instant::at(Duration(10'000));

Pacer::Flow flow(std::uint32_t dest_qp) {
  return {.from = 3, .to = wire::Lid{7}, .dest_qp = wire::QpNumber{dest_qp}};
}
bool admits(Pacer& pacer, Instant now, std::uint32_t dest_qp, std::uint32_t journey) {
  return pacer.admit(now, flow(dest_qp), kMegabits, kOctets, JourneyId{journey});
}

TEST(Pacer, LetsAPacketGoWhenThePathHasTakenTheOneBefore) {
  Pacer pacer(1, Duration{0});
  EXPECT_TRUE(admits(pacer, kStart, 1, 10));
  EXPECT_FALSE(admits(pacer, kStart, 1, 11));
  EXPECT_FALSE(admits(pacer, kStart + kPacket, 1, 12)) << "behind the one that is held";
  EXPECT_EQ(pacer.held_count(), 2U);
  EXPECT_EQ(pacer.next_due(), kStart + kPacket);
  EXPECT_FALSE(pacer.pop(kStart + (kPacket - Duration(1))));
  const auto first = pacer.pop(kStart + kPacket);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->journey, JourneyId{11});
  EXPECT_EQ(first->from, 3U);
  EXPECT_FALSE(pacer.pop(kStart + kPacket));
  EXPECT_EQ(pacer.pop(kStart + 2 * kPacket)->journey, JourneyId{12});
}

TEST(Pacer, FlowsDoNotWaitForEachOther) {
  Pacer pacer(1, Duration{0});
  EXPECT_TRUE(admits(pacer, kStart, 1, 10));
  EXPECT_TRUE(admits(pacer, kStart, 2, 11));
  EXPECT_FALSE(admits(pacer, kStart, 2, 12));
}

TEST(Pacer, ForgetsAFlowThatHasEnded) {
  Pacer pacer(1, Duration{0});
  EXPECT_TRUE(admits(pacer, kStart, 1, 10));
  EXPECT_FALSE(pacer.pop(kStart + kPacket));
  EXPECT_EQ(pacer.next_due(), Instant::never());
  EXPECT_TRUE(admits(pacer, kStart + kPacket, 1, 11));
}

TEST(Pacer, AFlowThatPausesBeginsAnew) {
  Pacer pacer(1, Duration{0});
  EXPECT_TRUE(admits(pacer, kStart, 1, 10));
  EXPECT_TRUE(admits(pacer, kStart + 10 * kPacket, 1, 11));
  EXPECT_EQ(pacer.next_due(), kStart + 11 * kPacket) << "one turn for each flow";
}

TEST(Pacer, IsAsSlowAsTheLinksAndAsCoarseAsTheClock) {
  Pacer pacer(10, 20 * kPacket);
  EXPECT_TRUE(admits(pacer, kStart, 1, 10));
  EXPECT_TRUE(admits(pacer, kStart, 1, 11));
  EXPECT_TRUE(admits(pacer, kStart, 1, 12));
  EXPECT_FALSE(admits(pacer, kStart, 1, 13));
  EXPECT_EQ(pacer.next_due(), kStart + 10 * kPacket);
}

TEST(Pacer, KnowsTheRatesOfPaths) {
  EXPECT_EQ(data_megabits_of_path(2), 2'000U) << "2.5 Gb/s with the bits of the coding";
  EXPECT_EQ(data_megabits_of_path(7), 32'000U);
  EXPECT_EQ(data_megabits_of_path(16), 100'000U);
  EXPECT_EQ(data_megabits_of_path(24), 1'200'000U);
  for (const unsigned none : {0U, 1U, 25U, 255U}) {
    EXPECT_EQ(data_megabits_of_path(static_cast<std::uint8_t>(none)), 0U);
  }
}

}  // namespace
}  // namespace verbatim::fabric
