// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/cm_disconnect.h"

#include <gtest/gtest.h>

#include "wire/cm/test_cm.h"

namespace verbatim::wire {
namespace {

constexpr const char* kDreqHead =
    "01 07 02 03 0000 0000 0000000aabbccdd0 0015 0000 00000000"
    "0b96d984 1c2d3e4f abcdef 00 aa";
constexpr const char* kDrepHead =
    "01 07 02 03 0000 0000 0000000aabbccdd0 0016 0000 00000000"
    "0b96d984 1c2d3e4f aa";

TEST(CmDreq, IsWrittenAndReadAsTheTableShows) {
  const CmDreq dreq{.transaction = TransactionId{0x0000000aabbccdd0},
                    .local_comm_id = CommId{0x0b96d984},
                    .remote_comm_id = CommId{0x1c2d3e4f},
                    .remote_qpn = QpNumber{0xabcdef},
                    .private_data = test::private_data<220>()};
  EXPECT_EQ(test::emitted(dreq), test::cm_octets(kDreqHead));
  const auto parsed = test::parsed<CmDreq>(test::cm_octets(kDreqHead));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, dreq);
}

TEST(CmDreq, LosesTheReservedBitsAndNoOther) {
  EXPECT_EQ(test::ones_that_survive<CmDreq>(), test::then_ones("ffffffff ffffffff ffffff 00"));
}

TEST(CmDrep, IsWrittenAndReadAsTheTableShows) {
  const CmDrep drep{.transaction = TransactionId{0x0000000aabbccdd0},
                    .local_comm_id = CommId{0x0b96d984},
                    .remote_comm_id = CommId{0x1c2d3e4f},
                    .private_data = test::private_data<224>()};
  EXPECT_EQ(test::emitted(drep), test::cm_octets(kDrepHead));
  const auto parsed = test::parsed<CmDrep>(test::cm_octets(kDrepHead));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, drep);
}

TEST(CmDrep, HasNoReservedBits) {
  EXPECT_EQ(test::ones_that_survive<CmDrep>(), test::then_ones(""));
}

}  // namespace
}  // namespace verbatim::wire
