// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/cm_req.h"

#include <gtest/gtest.h>

#include "wire/cm/test_cm.h"

namespace verbatim::wire {
namespace {

constexpr const char* kHead =
    "01 07 02 03 0000 0000 0000000aabbccdd0 0010 0000 71727374"
    /*   0 */
    "0b96d984 00 a1a2a3 0000000001061c06 505400fffe000001"
    /*  24 */
    "00000000 11223344 000011 04 0000e1 03 0000e2"
    /*  43 */
    "a1"  // timeout 20, RC, flow control
          /*  44 */
    "877ae4"
    /*  47 */
    "a7"  // timeout 20, retries 7
          /*  48 */
    "8001"
    /*  50 */
    "3e"  // MTU 3, RDC, RNR retries 6
          /*  51 */
    "f9"  // CM retries 15, SRQ, XRC
          /*  52 */
    "0102 0304 fe800000000000000000000000000001 fe800000000000000000000000000002"
    /*  88 */
    "720b00 2a 68 40"
    /*  94 */
    "58"  // service level 5, subnet local
          /*  95 */
    "88"  // timeout 17
          /*  96 */
    "0506 0708 fe800000000000000000000000000003 fe800000000000000000000000000004"
    /* 132 */
    "abcde0 15 69 41"
    /* 138 */
    "90"  // service level 9
          /* 139 */
    "94"  // timeout 18, SAP
    /* 140 */ "aa";

CmReq request() {
  return {.transaction = TransactionId{0x0000000aabbccdd0},
          .local_comm_id = CommId{0x0b96d984},
          .ece = {.vendor_id = 0xa1a2a3, .options = 0x71727374},
          .service_id = ServiceId{0x1061c06},
          .local_ca_guid = Guid{0x505400fffe000001},
          .local_qkey = QKey{0x11223344},
          .local_qpn = QpNumber{0x11},
          .responder_resources = 4,
          .initiator_depth = 3,
          .local_eecn = 0xe1,
          .remote_eecn = 0xe2,
          .remote_cm_response_timeout = 20,
          .local_cm_response_timeout = 20,
          .transport = CmTransport::kRc,
          .extended_transport = CmExtendedTransport::kXrc,
          .end_to_end_flow_control = true,
          .rdc_exists = true,
          .uses_srq = true,
          .sap_supported = true,
          .starting_psn = Psn(0x877ae4),
          .retry_count = 7,
          .rnr_retry_count = 6,
          .max_cm_retries = 15,
          .pkey = PKey{0x8001},
          .path_mtu = PathMtu::k1024,
          .primary = {.local_lid = Lid{0x0102},
                      .remote_lid = Lid{0x0304},
                      .local_gid = test::gid("fe800000000000000000000000000001"),
                      .remote_gid = test::gid("fe800000000000000000000000000002"),
                      .flow_label = 0x720b0,
                      .packet_rate = 0x2a,
                      .traffic_class = 0x68,
                      .hop_limit = 0x40,
                      .level = ServiceLevel{5},
                      .subnet_local = true,
                      .local_ack_timeout = 17},
          .alternate = {.local_lid = Lid{0x0506},
                        .remote_lid = Lid{0x0708},
                        .local_gid = test::gid("fe800000000000000000000000000003"),
                        .remote_gid = test::gid("fe800000000000000000000000000004"),
                        .flow_label = 0xabcde,
                        .packet_rate = 0x15,
                        .traffic_class = 0x69,
                        .hop_limit = 0x41,
                        .level = ServiceLevel{9},
                        .subnet_local = false,
                        .local_ack_timeout = 18},
          .private_data = test::private_data<92>()};
}

TEST(CmReq, IsWrittenAsTheTableShows) {
  EXPECT_EQ(test::emitted(request()), test::cm_octets(kHead));
}

TEST(CmReq, IsReadAsTheTableShows) {
  const auto req = test::parsed<CmReq>(test::cm_octets(kHead));
  ASSERT_TRUE(req);
  EXPECT_EQ(*req, request());
}

TEST(CmReq, LosesTheReservedBitsAndNoOther) {
  const std::string path =
      "ffff ffff ffffffffffffffffffffffffffffffff ffffffffffffffffffffffffffffffff"
      "fffff0 3f ff ff f8";
  EXPECT_EQ(test::ones_that_survive<CmReq>(),
            test::then_ones("ffffffff 00 ffffff ffffffffffffffff ffffffffffffffff 00000000"
                            "ffffffff ffffffff ffffffff ffffffff ffffffff ffff ff ff" +
                            path + "f8" + path + "fc"));
}

TEST(CmReq, CutsNumbersDownToTheirBits) {
  CmReq req{.responder_resources = 0xff, .local_eecn = 0xff00'0001, .retry_count = 0xff};
  req.primary.flow_label = 0xfff0'0001;
  req.primary.packet_rate = 0xc1;
  const auto octets = test::emitted(req);
  const auto at = [&](std::size_t offset) {
    return std::to_integer<unsigned>(octets[MadHeader::kSize + offset]);
  };
  EXPECT_EQ(at(34), 0U) << "the octet before the resources";
  EXPECT_EQ(at(36), 0U);
  EXPECT_EQ(at(38), 1U);
  EXPECT_EQ(at(47), 0x07U) << "the retry count leaves the timeout alone";
  EXPECT_EQ(at(88), 0U);
  EXPECT_EQ(at(90), 0x10U);
  EXPECT_EQ(at(91), 0x01U);
}

TEST(CmReq, KnowsWhetherThereIsAnAlternatePath) {
  EXPECT_TRUE(request().alternate.exists());
  EXPECT_FALSE(CmReq{}.alternate.exists());
}

TEST(CmTransport, HasTheNumbersOfTheTable) {
  EXPECT_EQ(static_cast<unsigned>(CmTransport::kRc), 0U);
  EXPECT_EQ(static_cast<unsigned>(CmTransport::kUc), 1U);
  EXPECT_EQ(static_cast<unsigned>(CmTransport::kRd), 2U);
  EXPECT_EQ(static_cast<unsigned>(CmTransport::kExtended), 3U);
  EXPECT_EQ(static_cast<unsigned>(CmExtendedTransport::kXrc), 1U);
}

}  // namespace
}  // namespace verbatim::wire
