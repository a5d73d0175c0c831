// SPDX-License-Identifier: Apache-2.0
#include "cm/addressee.h"

#include <gtest/gtest.h>

#include <array>

#include "wire/cm/cm_message.h"

namespace verbatim::cm {
namespace {

using wire::CommId;

Addressee addressee_of_message(const wire::CmMessage& message) {
  std::array<std::byte, wire::Mad::kSize> octets;
  wire::emit(message, octets);
  return addressee_of(octets);
}

TEST(Addressee, TheSlotIsTheFirstOctetOfAnId) {
  EXPECT_EQ(slot_of(CommId{0x12345678}), 0x12);
  EXPECT_EQ(slot_of(CommId{0xff000000}), 0xff);
}

TEST(Addressee, RequestsAreForAService) {
  const wire::ServiceId service{0x1060001};
  EXPECT_EQ(addressee_of_message(wire::CmReq{.service_id = service}), Addressee{service});
  EXPECT_EQ(addressee_of_message(wire::CmSidrReq{.service_id = service}), Addressee{service});
}

TEST(Addressee, EverythingElseIsForTheAgentThatGaveTheId) {
  const CommId theirs{1};
  const CommId ours{0x42000007};
  const Addressee expected = ours;
  EXPECT_EQ(addressee_of_message(wire::CmMra{.local_comm_id = theirs, .remote_comm_id = ours}),
            expected);
  EXPECT_EQ(addressee_of_message(wire::CmRej{.local_comm_id = theirs, .remote_comm_id = ours}),
            expected);
  EXPECT_EQ(addressee_of_message(wire::CmRep{.local_comm_id = theirs, .remote_comm_id = ours}),
            expected);
  EXPECT_EQ(addressee_of_message(wire::CmRtu{.local_comm_id = theirs, .remote_comm_id = ours}),
            expected);
  EXPECT_EQ(addressee_of_message(wire::CmDreq{.local_comm_id = theirs, .remote_comm_id = ours}),
            expected);
  EXPECT_EQ(addressee_of_message(wire::CmDrep{.local_comm_id = theirs, .remote_comm_id = ours}),
            expected);
  EXPECT_EQ(addressee_of_message(wire::CmLap{.local_comm_id = theirs, .remote_comm_id = ours}),
            expected);
  EXPECT_EQ(addressee_of_message(wire::CmApr{.local_comm_id = theirs, .remote_comm_id = ours}),
            expected);
  EXPECT_EQ(addressee_of_message(wire::CmSidrRep{.request_id = ours}), expected);
}

TEST(Addressee, ARefusalWithoutAnIdIsForEveryAgent) {
  EXPECT_EQ(addressee_of_message(
                wire::CmRej{.local_comm_id = CommId{1}, .reason = wire::RejectReason::kTimeout}),
            Addressee{EveryAgent{}});
}

TEST(Addressee, OtherDatagramsAreForNoAgent) {
  EXPECT_EQ(addressee_of({}), Addressee{NoAgent{}});
  std::array<std::byte, wire::Mad::kSize> octets{};
  EXPECT_EQ(addressee_of(octets), Addressee{NoAgent{}});
  wire::CmReq{}.emit(octets);
  EXPECT_EQ(addressee_of(std::span(octets).first(255)), Addressee{NoAgent{}});
}

}  // namespace
}  // namespace verbatim::cm
