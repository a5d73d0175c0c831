// SPDX-License-Identifier: Apache-2.0
#include "wire/management/sa_message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "wire/headers/test_octets.h"
#include "wire/management/multicast_record.h"
#include "wire/management/path_record.h"

namespace verbatim::wire {
namespace {

std::array<std::byte, Mad::kSize> query() {
  std::array<std::byte, Mad::kSize> octets;
  octets.fill(std::byte{0xee});
  SaMessage{.method = MadMethod::kGet,
            .transaction = TransactionId{0x1112131415161718},
            .component_mask = PathRecord::kDestinationGid | PathRecord::kPKey}
      .emit(PathRecord{.service = ServiceId{0x21}, .pkey = PKey::kDefault}, octets);
  return octets;
}

TEST(SaMessage, IsWrittenAsTheFiguresShow) {
  const auto octets = query();
  const auto expected = test::hex(
      "01 03 02 01 0000 0000 1112131415161718 0035 0000 00000000"  // header of the datagram
      "00 00 00 00 00000000 00000000"                              // RMPP, not active
      "0000000000000000 0008 0000 0000000000002004"                // subnet administration
      "0000000000000021");
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), octets.begin()));
  EXPECT_TRUE(std::all_of(octets.begin() + SaHeader::kEnd + PathRecord::kSize, octets.end(),
                          [](std::byte octet) { return octet == std::byte{0}; }));
}

TEST(SaMessage, ItsRecordIsReadAgain) {
  const auto octets = query();
  const auto mad = MadView::parse(octets);
  ASSERT_TRUE(mad);
  const auto record = record_in<PathRecord>(*mad);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->service, ServiceId{0x21});
  EXPECT_EQ(record->pkey, PKey::kDefault);
}

TEST(SaMessage, ARecordOfAnotherKindOrClassIsNotRead) {
  auto octets = query();
  EXPECT_FALSE(record_in<MulticastRecord>(*MadView::parse(octets)));
  octets[2] = std::byte{1};
  EXPECT_FALSE(record_in<PathRecord>(*MadView::parse(octets)));
  octets[2] = std::byte{2};
  octets[1] = std::byte{4};
  EXPECT_FALSE(record_in<PathRecord>(*MadView::parse(octets)));
}

TEST(SaStatus, IsTheUpperOctet) {
  EXPECT_EQ(sa_status_of(0), SaStatus::kNone);
  EXPECT_EQ(sa_status_of(0x0300), SaStatus::kNoRecords);
  EXPECT_EQ(sa_status_of(0x0704), SaStatus::kRequestDenied);
}

}  // namespace
}  // namespace verbatim::wire
