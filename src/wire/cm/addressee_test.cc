// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/addressee.h"

#include <gtest/gtest.h>

#include <array>

#include "wire/cm/cm_message.h"

namespace verbatim::wire {
namespace {

Addressee addressee_of_message(const CmMessage& message) {
  std::array<std::byte, Mad::kSize> octets;
  emit(message, octets);
  return addressee_of(octets);
}

TEST(Addressee, TheSlotIsTheFirstOctetOfAnId) {
  EXPECT_EQ(slot_of(CommId{0x12345678}), 0x12);
  EXPECT_EQ(slot_of(CommId{0xff000000}), 0xff);
}

TEST(Addressee, RequestsAreForAService) {
  const ServiceId service{0x1060001};
  EXPECT_EQ(addressee_of_message(CmReq{.service_id = service}), Addressee{service});
  EXPECT_EQ(addressee_of_message(CmSidrReq{.service_id = service}), Addressee{service});
}

TEST(Addressee, EverythingElseIsForTheAgentThatGaveTheId) {
  const CommId theirs{1};
  const CommId ours{0x42000007};
  const Addressee expected = ours;
  EXPECT_EQ(addressee_of_message(CmMra{.local_comm_id = theirs, .remote_comm_id = ours}), expected);
  EXPECT_EQ(addressee_of_message(CmRej{.local_comm_id = theirs, .remote_comm_id = ours}), expected);
  EXPECT_EQ(addressee_of_message(CmRep{.local_comm_id = theirs, .remote_comm_id = ours}), expected);
  EXPECT_EQ(addressee_of_message(CmRtu{.local_comm_id = theirs, .remote_comm_id = ours}), expected);
  EXPECT_EQ(addressee_of_message(CmDreq{.local_comm_id = theirs, .remote_comm_id = ours}),
            expected);
  EXPECT_EQ(addressee_of_message(CmDrep{.local_comm_id = theirs, .remote_comm_id = ours}),
            expected);
  EXPECT_EQ(addressee_of_message(CmLap{.local_comm_id = theirs, .remote_comm_id = ours}), expected);
  EXPECT_EQ(addressee_of_message(CmApr{.local_comm_id = theirs, .remote_comm_id = ours}), expected);
  EXPECT_EQ(addressee_of_message(CmSidrRep{.request_id = ours}), expected);
}

TEST(Addressee, ARefusalWithoutAnIdIsForEveryAgent) {
  EXPECT_EQ(
      addressee_of_message(CmRej{.local_comm_id = CommId{1}, .reason = RejectReason::kTimeout}),
      Addressee{EveryAgent{}});
}

TEST(Addressee, OtherDatagramsAreForNoAgent) {
  EXPECT_EQ(addressee_of({}), Addressee{NoAgent{}});
  std::array<std::byte, Mad::kSize> octets{};
  EXPECT_EQ(addressee_of(octets), Addressee{NoAgent{}});
  CmReq{}.emit(octets);
  EXPECT_EQ(addressee_of(std::span(octets).first(255)), Addressee{NoAgent{}});
}

}  // namespace
}  // namespace verbatim::wire
