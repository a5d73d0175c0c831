// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/cm_message.h"

#include <gtest/gtest.h>

#include <string>

#include "wire/cm/test_cm.h"

namespace verbatim::wire {
namespace {

using test::emitted;

template <typename Message>
class EveryCmMessage : public testing::Test {};
using Messages = testing::Types<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq,
                                CmSidrRep, CmLap, CmApr>;
TYPED_TEST_SUITE(EveryCmMessage, Messages);

TYPED_TEST(EveryCmMessage, SurvivesTheRoundTripFromValues) {
  Prng prng(62);
  for (int i = 0; i < 1000; ++i) {
    const auto message = test::random_message<TypeParam>(prng);
    const auto back = test::parsed<TypeParam>(emitted(message));
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, message);
  }
}

TYPED_TEST(EveryCmMessage, IsStableWhateverOctetsItCameFrom) {
  Prng prng(63);
  for (int i = 0; i < 1000; ++i) {
    auto octets = test::random_octets(prng, Mad::kSize);
    MadHeader{.mgmt_class = MgmtClass::kCommunication,
              .class_version = kCmClassVersion,
              .method = MadMethod::kSend,
              .status = test::random<std::uint16_t>(prng),
              .attribute_id = static_cast<std::uint16_t>(TypeParam::kAttribute),
              .attribute_modifier = test::random<std::uint32_t>(prng)}
        .emit(std::span<std::byte, MadHeader::kSize>(octets.data(), MadHeader::kSize));
    const auto first = test::parsed<TypeParam>(octets);
    ASSERT_TRUE(first);
    const auto second = test::parsed<TypeParam>(emitted(*first));
    ASSERT_TRUE(second);
    EXPECT_EQ(*second, *first);
    EXPECT_EQ(emitted(*second), emitted(*first));
  }
}

TYPED_TEST(EveryCmMessage, IsRefusedInEveryTruncation) {
  const auto octets = emitted(TypeParam{});
  for (std::size_t size = 0; size < octets.size(); ++size) {
    const auto message = test::parsed<TypeParam>(
        test::Octets(octets.begin(), octets.begin() + std::ptrdiff_t(size)));
    ASSERT_FALSE(message);
    EXPECT_EQ(message.error(), WireError::kTruncated);
  }
}

TYPED_TEST(EveryCmMessage, IsRefusedInAnyOtherClassVersionMethodOrAttribute) {
  const auto refused_as = [](std::size_t offset, unsigned octet) {
    auto octets = emitted(TypeParam{});
    octets[offset] = static_cast<std::byte>(octet);
    const auto message = test::parsed<TypeParam>(octets);
    return message ? "accepted" : name_of(message.error());
  };
  EXPECT_STREQ(refused_as(1, 0x07), "accepted");
  EXPECT_STREQ(refused_as(1, 0x03), "bad management class");
  EXPECT_STREQ(refused_as(2, 1), "bad version");
  EXPECT_STREQ(refused_as(2, 3), "bad version");
  EXPECT_STREQ(refused_as(3, 0x01), "bad attribute");
  EXPECT_STREQ(refused_as(3, 0x83), "bad attribute");
  for (unsigned attribute = 0; attribute < 256; ++attribute) {
    const bool mine = attribute == static_cast<unsigned>(TypeParam::kAttribute);
    EXPECT_STREQ(refused_as(17, attribute), mine ? "accepted" : "bad attribute");
  }
  EXPECT_STREQ(refused_as(16, 1), "bad attribute");
}

TYPED_TEST(EveryCmMessage, IsFoundByItsAttribute) {
  Prng prng(64);
  const auto message = test::random_message<TypeParam>(prng);
  const auto octets = emitted(message);
  const auto mad = MadView::parse(octets);
  ASSERT_TRUE(mad);
  const auto found = parse_cm_message(*mad);
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, CmMessage(message));
  EXPECT_EQ(attribute_of(*found), TypeParam::kAttribute);
  EXPECT_EQ(transaction_of(*found), message.transaction);
  test::Octets again(Mad::kSize, std::byte{0xff});
  emit(*found, std::span<std::byte, Mad::kSize>(again));
  EXPECT_EQ(again, octets);
}

TYPED_TEST(EveryCmMessage, HasItsPrivateDataAtTheEnd) {
  TypeParam message;
  message.private_data.fill(std::byte{0xee});
  const auto octets = emitted(message);
  EXPECT_EQ(message.private_data.size(), TypeParam::kPrivateOctets);
  EXPECT_EQ(std::count(octets.end() - TypeParam::kPrivateOctets, octets.end(), std::byte{0xee}),
            std::ptrdiff_t(TypeParam::kPrivateOctets));
}

TEST(CmMessage, IsRefusedUnlessClassVersionMethodAndAttributeNameOne) {
  const auto refused_as = [](std::size_t offset, unsigned octet) {
    auto octets = emitted(CmRtu{});
    octets[offset] = static_cast<std::byte>(octet);
    const auto mad = MadView::parse(octets);
    if (!mad) return "no datagram";
    const auto message = parse_cm_message(*mad);
    return message ? "accepted" : name_of(message.error());
  };
  for (unsigned octet = 0; octet < 256; ++octet) {
    EXPECT_STREQ(refused_as(1, octet), octet == 7 ? "accepted" : "bad management class");
    EXPECT_STREQ(refused_as(2, octet), octet == 2 ? "accepted" : "bad version");
    EXPECT_STREQ(refused_as(3, octet), octet == 3 ? "accepted" : "bad attribute");
    EXPECT_STREQ(refused_as(16, octet), octet == 0 ? "accepted" : "bad attribute");
    const bool names_one = octet >= 0x10 && octet <= 0x1a;
    EXPECT_STREQ(refused_as(17, octet), names_one ? "accepted" : "bad attribute");
  }
}

TEST(CmAttribute, HasTheNumbersAndNamesOfTheTable) {
  using enum CmAttribute;
  struct Entry {
    unsigned number;
    CmAttribute attribute;
    const char* name;
  };
  const Entry kTable[] = {
      {0x10, kReq, "REQ"},   {0x11, kMra, "MRA"},          {0x12, kRej, "REJ"},
      {0x13, kRep, "REP"},   {0x14, kRtu, "RTU"},          {0x15, kDreq, "DREQ"},
      {0x16, kDrep, "DREP"}, {0x17, kSidrReq, "SIDR_REQ"}, {0x18, kSidrRep, "SIDR_REP"},
      {0x19, kLap, "LAP"},   {0x1a, kApr, "APR"},
  };
  for (const Entry& entry : kTable) {
    EXPECT_EQ(static_cast<unsigned>(entry.attribute), entry.number);
    EXPECT_EQ(name_of(entry.attribute), std::string(entry.name));
  }
  EXPECT_EQ(name_of(CmAttribute{0x1b}), std::string("?"));
}

}  // namespace
}  // namespace verbatim::wire
