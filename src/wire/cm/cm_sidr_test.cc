// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/cm_sidr.h"

#include <gtest/gtest.h>

#include <string>

#include "wire/cm/test_cm.h"

namespace verbatim::wire {
namespace {

constexpr const char* kReqHead =
    "01 07 02 03 0000 0000 0000000aabbccdd0 0017 0000 00000000"
    "0b96d984 8001 0000 0000000001111c06 aa";

TEST(CmSidrReq, IsWrittenAndReadAsTheTableShows) {
  const CmSidrReq req{.transaction = TransactionId{0x0000000aabbccdd0},
                      .request_id = CommId{0x0b96d984},
                      .pkey = PKey{0x8001},
                      .service_id = ServiceId{0x1111c06},
                      .private_data = test::private_data<216>()};
  EXPECT_EQ(test::emitted(req), test::cm_octets(kReqHead));
  const auto parsed = test::parsed<CmSidrReq>(test::cm_octets(kReqHead));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, req);
}

TEST(CmSidrReq, LosesTheReservedBitsAndNoOther) {
  EXPECT_EQ(test::ones_that_survive<CmSidrReq>(), test::then_ones("ffffffff ffff 0000"));
}

const std::string kRepHead =
    "01 07 02 03 0000 0000 0000000aabbccdd0 0018 0000 71727374"
    "0b96d984 04 10 a1a2 abcdef a3 0000000001111c06 01234567" +
    std::string("fe80000000000000") + std::string(2 * 63, '0') + "cc aa";

CmSidrRep reply() {
  CmSidrRep rep{.transaction = TransactionId{0x0000000aabbccdd0},
                .request_id = CommId{0x0b96d984},
                .status = SidrStatus::kRedirect,
                .ece = {.vendor_id = 0xa1a2a3, .options = 0x71727374},
                .qpn = QpNumber{0xabcdef},
                .service_id = ServiceId{0x1111c06},
                .qkey = QKey{0x01234567},
                .info_octets = 16,
                .private_data = test::private_data<136>()};
  rep.info_field[0] = std::byte{0xfe};
  rep.info_field[1] = std::byte{0x80};
  rep.info_field.back() = std::byte{0xcc};
  return rep;
}

TEST(CmSidrRep, IsWrittenAsTheTableShows) {
  EXPECT_EQ(test::emitted(reply()), test::cm_octets(kRepHead));
}

TEST(CmSidrRep, IsReadAsTheTableShows) {
  const auto rep = test::parsed<CmSidrRep>(test::cm_octets(kRepHead));
  ASSERT_TRUE(rep);
  EXPECT_EQ(*rep, reply());
}

TEST(CmSidrRep, HasNoReservedBits) {
  EXPECT_EQ(test::ones_that_survive<CmSidrRep>(), test::then_ones(""));
}

TEST(CmSidrRep, NeverShowsMoreInformationThanThereIs) {
  CmSidrRep rep = reply();
  for (unsigned claimed = 0; claimed < 256; ++claimed) {
    rep.info_octets = static_cast<std::uint8_t>(claimed);
    EXPECT_EQ(rep.info().size(), std::min<std::size_t>(claimed, 72));
  }
}

TEST(SidrStatus, HasTheNumbersAndNamesOfTheTable) {
  using enum SidrStatus;
  struct Entry {
    unsigned number;
    SidrStatus status;
    const char* name;
  };
  const Entry kTable[] = {
      {0, kValid, "valid"},
      {1, kServiceNotSupported, "service ID not supported"},
      {2, kRejected, "rejected by the service"},
      {3, kNoQp, "no QP available"},
      {4, kRedirect, "redirect"},
      {5, kVersionNotSupported, "version not supported"},
  };
  for (const Entry& entry : kTable) {
    EXPECT_EQ(static_cast<unsigned>(entry.status), entry.number);
    EXPECT_EQ(name_of(entry.status), std::string(entry.name));
  }
  for (unsigned number = 6; number < 256; ++number) {
    EXPECT_EQ(name_of(SidrStatus{static_cast<std::uint8_t>(number)}), std::string("?"));
  }
}

}  // namespace
}  // namespace verbatim::wire
