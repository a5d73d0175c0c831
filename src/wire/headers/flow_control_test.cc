// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/flow_control.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::hex;

TEST(FlowControl, IsWrittenWithItsCrc) {
  EXPECT_EQ(emitted(FlowControl{.op = FlowControl::Op::kInit, .credit_limit = 0x080}),
            hex("1000 0080 50d5"));
  EXPECT_EQ(emitted(FlowControl{.blocks_sent = 0x123, .credit_limit = 0x1a3}),
            hex("0123 01a3 6411"));
  EXPECT_EQ(
      emitted(FlowControl{.blocks_sent = 0xffff, .lane = VirtualLane{3}, .credit_limit = 0xf07f}),
      hex("0fff 307f a0e2"))
      << "twelve bits of each count";
}

TEST(FlowControlView, ReadsEveryField) {
  const auto octets = hex("0fff 307f a0e2");
  const auto view = FlowControlView::parse(octets);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->op(), FlowControl::Op::kNormal);
  EXPECT_EQ(view->blocks_sent(), 0xfff);
  EXPECT_EQ(view->lane(), VirtualLane{3});
  EXPECT_EQ(view->credit_limit(), 0x07f);
}

TEST(FlowControlView, RefusesOneFlippedBitAnywhere) {
  for (std::size_t bit = 0; bit < 8 * FlowControl::kSize; ++bit) {
    auto octets = hex("0123 01a3 6411");
    octets[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto view = FlowControlView::parse(octets);
    ASSERT_FALSE(view) << bit;
    EXPECT_EQ(view.error(), WireError::kBadChecksum);
  }
}

TEST(FlowControlView, RefusesEveryOtherLength) {
  const auto octets = hex("0123 01a3 6411 00");
  for (std::size_t size = 0; size <= octets.size(); ++size) {
    const auto view = FlowControlView::parse(std::span(octets).first(size));
    ASSERT_EQ(view.ok(), size == FlowControl::kSize);
    if (!view) {
      EXPECT_EQ(view.error(), size < 6 ? WireError::kTruncated : WireError::kBadLength);
    }
  }
}

TEST(FlowControl, SurvivesTheRoundTrip) {
  Prng prng(18);
  for (int i = 0; i < 1000; ++i) {
    const auto sent =
        emitted(FlowControl{.op = FlowControl::Op{static_cast<std::uint8_t>(prng.below(16))},
                            .blocks_sent = test::random<std::uint16_t>(prng),
                            .lane = VirtualLane{static_cast<std::uint8_t>(prng.below(16))},
                            .credit_limit = test::random<std::uint16_t>(prng)});
    const auto view = FlowControlView::parse(sent);
    ASSERT_TRUE(view);
    EXPECT_EQ(emitted(view->value()), sent);
  }
}

}  // namespace
}  // namespace verbatim::wire
