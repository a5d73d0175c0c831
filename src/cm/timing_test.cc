// SPDX-License-Identifier: Apache-2.0
#include "cm/timing.h"

#include <gtest/gtest.h>

namespace verbatim::cm {
namespace {

using namespace std::chrono_literals;

TEST(Timing, ACodeIsAPowerOfTwoOfFourMicroseconds) {
  EXPECT_EQ(duration_of(TimeCode{0}), 4096ns);
  EXPECT_EQ(duration_of(TimeCode{1}), 8192ns);
  EXPECT_EQ(duration_of(TimeCode{20}), 4096ns * (1 << 20));
  EXPECT_EQ(duration_of(TimeCode{31}), 4096ns * (std::int64_t{1} << 31));
  EXPECT_EQ(duration_of(TimeCode{32}), duration_of(TimeCode{0})) << "five bits";
}

TEST(Timing, AnAnswerTakesTheWayThereAndBackAndTheTimeToAnswer) {
  EXPECT_EQ(answer_time(TimeCode{20}, TimeCode{16}), 4096ns * ((1 << 20) + 2 * (1 << 16)));
}

TEST(Timing, TheAckTimeoutIsWhatLinuxAnnounces) {
  EXPECT_EQ(ack_timeout_of(TimeCode{15}, TimeCode{16}), TimeCode{17}) << "rdma_rxe";
}

TEST(Timing, TheAckTimeoutIsOneMoreWhereBothPartsAreAboutAsLong) {
  EXPECT_EQ(ack_timeout_of(TimeCode{16}, TimeCode{16}), TimeCode{18});
  EXPECT_EQ(ack_timeout_of(TimeCode{17}, TimeCode{16}), TimeCode{18});
  EXPECT_EQ(ack_timeout_of(TimeCode{18}, TimeCode{16}), TimeCode{19});
  EXPECT_EQ(ack_timeout_of(TimeCode{19}, TimeCode{16}), TimeCode{19});
  EXPECT_EQ(ack_timeout_of(TimeCode{0}, TimeCode{0}), TimeCode{2});
  EXPECT_EQ(ack_timeout_of(TimeCode{31}, TimeCode{31}), TimeCode{31}) << "five bits";
}

}  // namespace
}  // namespace verbatim::cm
