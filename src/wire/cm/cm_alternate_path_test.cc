// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/cm_alternate_path.h"

#include <gtest/gtest.h>

#include <string>

#include "wire/cm/test_cm.h"

namespace verbatim::wire {
namespace {

constexpr const char* kLapHead =
    "01 07 02 03 0000 0000 0000000aabbccdd0 0019 0000 00000000"
    /*  0 */
    "0b96d984 1c2d3e4f 00000000 abcdef a0 00000000"  // timeout 20
                                                     /* 20 */
    "0506 0708 fe800000000000000000000000000003 fe800000000000000000000000000004"
    /* 56 */
    "abcde0 69 41 15"
    /* 62 */
    "98"  // service level 9, subnet local
          /* 63 */
    "90"  // timeout 18
    /* 64 */ "aa";

CmLap offer() {
  return {.transaction = TransactionId{0x0000000aabbccdd0},
          .local_comm_id = CommId{0x0b96d984},
          .remote_comm_id = CommId{0x1c2d3e4f},
          .remote_qpn = QpNumber{0xabcdef},
          .remote_cm_response_timeout = 20,
          .alternate = {.local_lid = Lid{0x0506},
                        .remote_lid = Lid{0x0708},
                        .local_gid = test::gid("fe800000000000000000000000000003"),
                        .remote_gid = test::gid("fe800000000000000000000000000004"),
                        .flow_label = 0xabcde,
                        .packet_rate = 0x15,
                        .traffic_class = 0x69,
                        .hop_limit = 0x41,
                        .level = ServiceLevel{9},
                        .subnet_local = true,
                        .local_ack_timeout = 18},
          .private_data = test::private_data<168>()};
}

TEST(CmLap, IsWrittenAsTheTableShows) {
  EXPECT_EQ(test::emitted(offer()), test::cm_octets(kLapHead));
}

TEST(CmLap, IsReadAsTheTableShows) {
  const auto lap = test::parsed<CmLap>(test::cm_octets(kLapHead));
  ASSERT_TRUE(lap);
  EXPECT_EQ(*lap, offer());
}

TEST(CmLap, LosesTheReservedBitsAndNoOther) {
  EXPECT_EQ(test::ones_that_survive<CmLap>(),
            test::then_ones("ffffffff ffffffff 00000000 ffffff f8 00000000 ffff ffff"
                            "ffffffffffffffffffffffffffffffff ffffffffffffffffffffffffffffffff"
                            "fffff0 ff ff 3f f8 f8"));
}

const std::string kAprHead =
    "01 07 02 03 0000 0000 0000000aabbccdd0 001a 0000 00000000"
    "0b96d984 1c2d3e4f 10 08 0000" +
    std::string("fe80000000000000") + std::string(2 * 63, '0') + "cc aa";

CmApr answer() {
  CmApr apr{.transaction = TransactionId{0x0000000aabbccdd0},
            .local_comm_id = CommId{0x0b96d984},
            .remote_comm_id = CommId{0x1c2d3e4f},
            .status = AprStatus::kInvalidGid,
            .info_octets = 16,
            .private_data = test::private_data<148>()};
  apr.info_field[0] = std::byte{0xfe};
  apr.info_field[1] = std::byte{0x80};
  apr.info_field.back() = std::byte{0xcc};
  return apr;
}

TEST(CmApr, IsWrittenAsTheTableShows) {
  EXPECT_EQ(test::emitted(answer()), test::cm_octets(kAprHead));
}

TEST(CmApr, IsReadAsTheTableShows) {
  const auto apr = test::parsed<CmApr>(test::cm_octets(kAprHead));
  ASSERT_TRUE(apr);
  EXPECT_EQ(*apr, answer());
}

TEST(CmApr, LosesTheReservedBitsAndNoOther) {
  EXPECT_EQ(test::ones_that_survive<CmApr>(), test::then_ones("ffffffff ffffffff ff ff 0000"));
}

TEST(CmApr, NeverShowsMoreInformationThanThereIs) {
  CmApr apr = answer();
  for (unsigned claimed = 0; claimed < 256; ++claimed) {
    apr.info_octets = static_cast<std::uint8_t>(claimed);
    EXPECT_EQ(apr.info().size(), std::min<std::size_t>(claimed, 72));
  }
}

TEST(AprStatus, HasTheNumbersAndNamesOfTheTable) {
  using enum AprStatus;
  struct Entry {
    unsigned number;
    AprStatus status;
    const char* name;
  };
  const Entry kTable[] = {
      {0, kLoaded, "loaded"},
      {1, kInvalidCommId, "invalid communication ID"},
      {2, kNotSupported, "not supported"},
      {3, kRejected, "rejected"},
      {4, kRedirect, "redirect"},
      {5, kIsCurrent, "is the current path"},
      {6, kInvalidQpn, "invalid QP or EEC number"},
      {7, kInvalidLid, "invalid LID"},
      {8, kInvalidGid, "invalid GID"},
      {9, kInvalidFlowLabel, "invalid flow label"},
      {10, kInvalidTrafficClass, "invalid traffic class"},
      {11, kInvalidHopLimit, "invalid hop limit"},
      {12, kInvalidPacketRate, "invalid packet rate"},
      {13, kInvalidServiceLevel, "invalid service level"},
  };
  for (const Entry& entry : kTable) {
    EXPECT_EQ(static_cast<unsigned>(entry.status), entry.number);
    EXPECT_EQ(name_of(entry.status), std::string(entry.name));
  }
  for (unsigned number = 14; number < 256; ++number) {
    EXPECT_EQ(name_of(AprStatus{static_cast<std::uint8_t>(number)}), std::string("?"));
  }
}

}  // namespace
}  // namespace verbatim::wire
