// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/cm_rep.h"

#include <gtest/gtest.h>

#include "wire/cm/test_cm.h"

namespace verbatim::wire {
namespace {

constexpr const char* kHead =
    "01 07 02 03 0000 0000 0000000aabbccdd0 0013 0000 71727374"
    /*  0 */
    "0b96d984 1c2d3e4f 11223344 000012 a1 0000e1 a2 877ae4 a3 04 03"
    /* 26 */
    "7b"  // delay 15, failover not supported, flow control
          /* 27 */
    "d0"  // RNR retries 6, SRQ
    /* 28 */ "505400fffe000002 aa";

CmRep reply() {
  return {.transaction = TransactionId{0x0000000aabbccdd0},
          .local_comm_id = CommId{0x0b96d984},
          .remote_comm_id = CommId{0x1c2d3e4f},
          .ece = {.vendor_id = 0xa1a2a3, .options = 0x71727374},
          .local_qkey = QKey{0x11223344},
          .local_qpn = QpNumber{0x12},
          .local_eecn = 0xe1,
          .starting_psn = Psn(0x877ae4),
          .responder_resources = 4,
          .initiator_depth = 3,
          .target_ack_delay = 15,
          .failover = CmFailover::kNotSupported,
          .end_to_end_flow_control = true,
          .rnr_retry_count = 6,
          .uses_srq = true,
          .local_ca_guid = Guid{0x505400fffe000002},
          .private_data = test::private_data<196>()};
}

TEST(CmRep, IsWrittenAsTheTableShows) { EXPECT_EQ(test::emitted(reply()), test::cm_octets(kHead)); }

TEST(CmRep, IsReadAsTheTableShows) {
  const auto rep = test::parsed<CmRep>(test::cm_octets(kHead));
  ASSERT_TRUE(rep);
  EXPECT_EQ(*rep, reply());
}

TEST(CmRep, LosesTheReservedBitsAndNoOther) {
  EXPECT_EQ(test::ones_that_survive<CmRep>(),
            test::then_ones("ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ff ff ff f0"));
}

TEST(CmFailover, HasTheNumbersOfTheTable) {
  EXPECT_EQ(static_cast<unsigned>(CmFailover::kAccepted), 0U);
  EXPECT_EQ(static_cast<unsigned>(CmFailover::kNotSupported), 1U);
  EXPECT_EQ(static_cast<unsigned>(CmFailover::kRejected), 2U);
}

constexpr const char* kRtuHead =
    "01 07 02 03 0000 0000 0000000aabbccdd0 0014 0000 00000000"
    "0b96d984 1c2d3e4f aa";

TEST(CmRtu, IsWrittenAndReadAsTheTableShows) {
  const CmRtu rtu{.transaction = TransactionId{0x0000000aabbccdd0},
                  .local_comm_id = CommId{0x0b96d984},
                  .remote_comm_id = CommId{0x1c2d3e4f},
                  .private_data = test::private_data<224>()};
  EXPECT_EQ(test::emitted(rtu), test::cm_octets(kRtuHead));
  const auto parsed = test::parsed<CmRtu>(test::cm_octets(kRtuHead));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, rtu);
}

TEST(CmRtu, HasNoReservedBits) { EXPECT_EQ(test::ones_that_survive<CmRtu>(), test::then_ones("")); }

}  // namespace
}  // namespace verbatim::wire
