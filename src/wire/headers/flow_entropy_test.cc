// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/flow_entropy.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace verbatim::wire {
namespace {

TEST(FlowEntropy, FoldsALabelIntoThePort) {
  EXPECT_EQ(source_port_of_label(0), 0xc000);
  EXPECT_EQ(source_port_of_label(0x0'0005), 0xc005);
  EXPECT_EQ(source_port_of_label(0x0'3fff), 0xffff);
  EXPECT_EQ(source_port_of_label(0x0'4000), 0xc001);
  EXPECT_EQ(source_port_of_label(0xf'c000), 0xc03f);
  EXPECT_EQ(source_port_of_label(0xf'ffff), 0xffc0);
  EXPECT_EQ(source_port_of_label(0xfff0'0005), 0xc005) << "a label has twenty bits";
}

// Captured from rdma_rxe, whose two ends had the same numbers.
TEST(FlowEntropy, AgreesWithWhatLinuxSends) {
  EXPECT_EQ(source_port_of_connection(0, QpNumber{0x11}, QpNumber{0x11}), 0xc121);
  EXPECT_EQ(source_port_of_connection(0, QpNumber{0x17}, QpNumber{0x17}), 0xc211);
  EXPECT_EQ(source_port_of_connection(0, QpNumber{0x1f}, QpNumber{0x1f}), 0xc3c1);
  EXPECT_EQ(source_port_of_datagrams(QpNumber::kGsi), 0xd872);
  EXPECT_EQ(source_port_of_datagrams(QpNumber{0x18}), 0xcab3);
  EXPECT_EQ(source_port_of_datagrams(QpNumber{0x20}), 0xce44);
}

// The product is 0xab0a'74ef'03a6; its bits 20.. and then 40.. are folded into the low twenty.
TEST(FlowEntropy, MixesTwoLargeNumbersInSixtyFourBits) {
  EXPECT_EQ(flow_label_of(QpNumber{0xfedcba}, QpNumber{0xabcdef}), 0xf'a443U);
}

TEST(FlowEntropy, ALabelThatWasGivenWins) {
  EXPECT_EQ(source_port_of_connection(0x1'2345, QpNumber{1}, QpNumber{2}),
            source_port_of_label(0x1'2345));
}

TEST(FlowEntropy, BothDirectionsChooseTheSamePort) {
  Prng prng(15);
  for (int i = 0; i < 1000; ++i) {
    const QpNumber a{static_cast<std::uint32_t>(prng.below(1U << 24))};
    const QpNumber b{static_cast<std::uint32_t>(prng.below(1U << 24))};
    EXPECT_EQ(source_port_of_connection(0, a, b), source_port_of_connection(0, b, a));
  }
}

TEST(FlowEntropy, EveryPortIsInTheDynamicRange) {
  Prng prng(16);
  for (int i = 0; i < 1000; ++i) {
    const QpNumber qp{static_cast<std::uint32_t>(prng.below(1U << 24))};
    EXPECT_GE(source_port_of_datagrams(qp), kFirstEntropyPort);
    EXPECT_GE(source_port_of_label(static_cast<std::uint32_t>(prng.next())), kFirstEntropyPort);
  }
}

}  // namespace
}  // namespace verbatim::wire
