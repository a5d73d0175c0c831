// SPDX-License-Identifier: Apache-2.0
// The goodput of a connection over networks that lose packets, in virtual time: the same numbers in
// every run, so that a change which costs much of it is noticed.
#include "sim/goodput.h"

#include <gtest/gtest.h>

namespace verbatim::sim {
namespace {

using transport::SendOpcode;

constexpr double kWire = 1.25e9;  // octets per second
constexpr SendOpcode kOpcodes[] = {SendOpcode::kSend, SendOpcode::kWrite, SendOpcode::kRead};

GoodputResult measure(SendOpcode opcode, unsigned loss_per_mille, unsigned other_per_mille = 0) {
  return measure_goodput({.opcode = opcode,
                          .faults = {.loss_per_mille = loss_per_mille,
                                     .duplicate_per_mille = other_per_mille,
                                     .reorder_per_mille = other_per_mille,
                                     .delay = std::chrono::microseconds(10),
                                     .octets_per_second = std::uint64_t{1'250'000'000}}});
}

TEST(Goodput, AWireThatLosesNothingIsFull) {
  for (const SendOpcode opcode : kOpcodes) {
    const auto result = measure(opcode, 0);
    EXPECT_TRUE(result.is_intact);
    EXPECT_GT(result.octets_per_second, 0.95 * kWire);
    EXPECT_EQ(result.frames_per_packet, 1.0) << "nothing is sent twice";
  }
}

TEST(Goodput, OnePacketInAHundredCostsLessThanThreeQuarters) {
  for (const SendOpcode opcode : kOpcodes) {
    const auto result = measure(opcode, 10);
    EXPECT_TRUE(result.is_intact);
    EXPECT_GT(result.octets_per_second, 0.25 * kWire);
  }
}

TEST(Goodput, NoLossCostsAWholeTimeout) {
  // At 5 % about 1600 packets are lost. Were one in fifty of them noticed by the timeout of 67 ms
  // alone, that would be the end of 15 MB/s.
  for (const SendOpcode opcode : kOpcodes) {
    for (const unsigned other_per_mille : {0U, 50U}) {
      const auto result = measure(opcode, 50, other_per_mille);
      EXPECT_TRUE(result.is_intact);
      EXPECT_GT(result.octets_per_second, 40e6);
    }
  }
}

TEST(Goodput, TheSameSeedGivesTheSameNumbers) {
  EXPECT_EQ(measure(SendOpcode::kWrite, 10, 10).octets_per_second,
            measure(SendOpcode::kWrite, 10, 10).octets_per_second);
}

}  // namespace
}  // namespace verbatim::sim
