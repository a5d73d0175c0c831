// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/cm_rej.h"

#include <gtest/gtest.h>

#include <string>

#include "wire/cm/test_cm.h"

namespace verbatim::wire {
namespace {

const std::string kHead =
    "01 07 02 03 0000 0000 0000000aabbccdd0 0012 0000 00000000"
    "0b96d984 1c2d3e4f 40 20 000c" +   // of a REP, 16 octets of information, reason 12
    std::string("fe80000000000000") +  // information begins
    std::string(2 * 63, '0') +
    "cc aa";  // and ends; private data

CmRej refusal() {
  CmRej rej{.transaction = TransactionId{0x0000000aabbccdd0},
            .local_comm_id = CommId{0x0b96d984},
            .remote_comm_id = CommId{0x1c2d3e4f},
            .rejected = CmRej::Rejected::kRep,
            .reason = RejectReason::kPrimaryGid,
            .info_octets = 16,
            .private_data = test::private_data<148>()};
  rej.info_field[0] = std::byte{0xfe};
  rej.info_field[1] = std::byte{0x80};
  rej.info_field.back() = std::byte{0xcc};
  return rej;
}

TEST(CmRej, IsWrittenAsTheTableShows) {
  EXPECT_EQ(test::emitted(refusal()), test::cm_octets(kHead));
}

TEST(CmRej, IsReadAsTheTableShows) {
  const auto rej = test::parsed<CmRej>(test::cm_octets(kHead));
  ASSERT_TRUE(rej);
  EXPECT_EQ(*rej, refusal());
}

TEST(CmRej, LosesTheReservedBitsAndNoOther) {
  EXPECT_EQ(test::ones_that_survive<CmRej>(), test::then_ones("ffffffff ffffffff c0 fe"));
}

TEST(CmRej, NeverShowsMoreInformationThanThereIs) {
  CmRej rej = refusal();
  for (unsigned claimed = 0; claimed < 256; ++claimed) {
    rej.info_octets = static_cast<std::uint8_t>(claimed);
    EXPECT_EQ(rej.info().size(), std::min<std::size_t>(claimed, 72));
    EXPECT_EQ(rej.info().data(), rej.info_field.data());
  }
}

TEST(CmRej, NumbersWhatItRejectsAsTheTableDoes) {
  EXPECT_EQ(static_cast<unsigned>(CmRej::Rejected::kReq), 0U);
  EXPECT_EQ(static_cast<unsigned>(CmRej::Rejected::kRep), 1U);
  EXPECT_EQ(static_cast<unsigned>(CmRej::Rejected::kOther), 2U);
}

}  // namespace
}  // namespace verbatim::wire
