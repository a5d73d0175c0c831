// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/cm_mra.h"

#include <gtest/gtest.h>

#include "wire/cm/test_cm.h"

namespace verbatim::wire {
namespace {

constexpr const char* kHead =
    "01 07 02 03 0000 0000 0000000aabbccdd0 0011 0000 00000000"
    "0b96d984 1c2d3e4f 80 c0 aa";  // of a LAP, timeout 24

TEST(CmMra, IsWrittenAndReadAsTheTableShows) {
  const CmMra mra{.transaction = TransactionId{0x0000000aabbccdd0},
                  .local_comm_id = CommId{0x0b96d984},
                  .remote_comm_id = CommId{0x1c2d3e4f},
                  .received = CmMra::Received::kLap,
                  .service_timeout = 24,
                  .private_data = test::private_data<222>()};
  EXPECT_EQ(test::emitted(mra), test::cm_octets(kHead));
  const auto parsed = test::parsed<CmMra>(test::cm_octets(kHead));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, mra);
}

TEST(CmMra, LosesTheReservedBitsAndNoOther) {
  EXPECT_EQ(test::ones_that_survive<CmMra>(), test::then_ones("ffffffff ffffffff c0 f8"));
}

TEST(CmMra, NumbersWhatItReceivedAsTheTableDoes) {
  EXPECT_EQ(static_cast<unsigned>(CmMra::Received::kReq), 0U);
  EXPECT_EQ(static_cast<unsigned>(CmMra::Received::kRep), 1U);
  EXPECT_EQ(static_cast<unsigned>(CmMra::Received::kLap), 2U);
}

}  // namespace
}  // namespace verbatim::wire
