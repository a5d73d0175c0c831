// SPDX-License-Identifier: Apache-2.0
#include "fabric/lanes/lane_arbiter.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace verbatim::fabric {
namespace {

struct Weight {
  unsigned lane = 0;
  unsigned weight = 0;
};

Port::Arbitration table(std::initializer_list<Weight> weights) {
  Port::Arbitration octets{};
  std::size_t at = 0;
  for (const Weight& each : weights) {
    octets[at++] = static_cast<std::byte>(each.lane);
    octets[at++] = static_cast<std::byte>(each.weight);
  }
  return octets;
}

LaneArbiter arbiter(std::initializer_list<Weight> high, std::initializer_list<Weight> low,
                    std::uint8_t limit = 0) {
  LaneArbiter made;
  made.set_tables(table(high), table(low), limit);
  return made;
}

/// The lanes of so many packets, of which always all in `ready` have some.
std::string order(LaneArbiter& of, LaneArbiter::Lanes ready, int packets,
                  std::uint16_t blocks = 65) {
  std::string lanes;
  for (int i = 0; i < packets; ++i) {
    const auto lane = of.choose(ready);
    if (!lane) return lanes + "-";
    lanes += std::to_string(*lane);
    of.charge(blocks);
  }
  return lanes;
}

TEST(LaneArbiter, GivesEachLaneOfATableItsWeight) {
  LaneArbiter made = arbiter({}, {{0, 64}, {1, 192}});
  EXPECT_EQ(order(made, 0b11, 12), "011101110111");
  LaneArbiter small = arbiter({}, {{0, 1}, {1, 2}, {2, 1}});
  EXPECT_EQ(order(small, 0b111, 8, 1), "01120112");
}

TEST(LaneArbiter, TheLastPacketOfATurnMayTakeMoreThanTheWeight) {
  LaneArbiter made = arbiter({}, {{0, 1}, {1, 66}});
  EXPECT_EQ(order(made, 0b11, 6), "011011");
}

TEST(LaneArbiter, ALaneWithoutPacketsLosesItsTurn) {
  LaneArbiter made = arbiter({}, {{0, 255}, {1, 255}});
  EXPECT_EQ(order(made, 0b01, 2), "00");
  EXPECT_EQ(order(made, 0b10, 1), "1");
  EXPECT_EQ(order(made, 0b11, 5), "11100") << "three more of its 255 blocks, then the next one";
}

TEST(LaneArbiter, AnEntryWithoutWeightAndALaneWithoutEntryAreNotServed) {
  LaneArbiter made = arbiter({{3, 0}}, {{0, 1}, {1, 0}, {2, 1}});
  EXPECT_EQ(made.served(), 0b101);
  EXPECT_EQ(order(made, 0b1010, 1), "-");
  EXPECT_EQ(order(made, 0b1111, 4), "0202");
}

TEST(LaneArbiter, ALaneMayHaveSeveralEntries) {
  LaneArbiter made = arbiter({}, {{0, 1}, {1, 1}, {0, 1}, {2, 1}});
  EXPECT_EQ(order(made, 0b111, 8), "01020102");
}

TEST(LaneArbiter, TheHighTableGoesFirst) {
  LaneArbiter made = arbiter({{1, 1}}, {{0, 255}}, LaneArbiter::kNoLimit);
  EXPECT_EQ(order(made, 0b11, 5), "11111");
  EXPECT_EQ(order(made, 0b01, 2), "00");
  EXPECT_EQ(order(made, 0b11, 2), "11");
}

TEST(LaneArbiter, BehindItsLimitOnePacketOfTheLowTableLeaves) {
  LaneArbiter zero = arbiter({{1, 192}}, {{0, 64}}, 0);
  EXPECT_EQ(order(zero, 0b11, 6), "101010") << "a limit of 0 is one packet";
  LaneArbiter three = arbiter({{1, 192}}, {{0, 64}}, 3);
  EXPECT_EQ(order(three, 0b11, 8), "11101110") << "three times 4,096 octets";
}

TEST(LaneArbiter, TheLimitHoldsBackTheHighTableOnlyForThoseOfTheLowOne) {
  LaneArbiter made = arbiter({{1, 192}}, {{0, 64}}, 1);
  EXPECT_EQ(order(made, 0b10, 5), "11111");
}

TEST(LaneArbiter, ALaneOfBothTablesIsServedByEither) {
  LaneArbiter made = arbiter({{0, 64}}, {{0, 64}, {1, 64}}, 1);
  EXPECT_EQ(order(made, 0b11, 4), "0001") << "the low table has the lane 0 first";
}

}  // namespace
}  // namespace verbatim::fabric
