// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/mad.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::hex;

/// A header, then `filler` up to the length of a datagram.
test::Octets datagram(const test::Octets& header, std::byte filler = std::byte{0x5a}) {
  test::Octets octets = header;
  octets.resize(Mad::kSize, filler);
  return octets;
}

const auto kHeaderOctets = hex("01 07 02 03 8102 0304 1112131415161718 0010 0000 21222324");
constexpr MadHeader kHeader{.mgmt_class = MgmtClass::kCommunication,
                            .class_version = 2,
                            .method = MadMethod::kSend,
                            .status = 0x8102,
                            .class_specific = 0x0304,
                            .transaction = TransactionId{0x1112131415161718},
                            .attribute_id = 0x0010,
                            .attribute_modifier = 0x21222324};

TEST(MadHeader, IsWrittenAsTheFigureShows) { EXPECT_EQ(emitted(kHeader), kHeaderOctets); }

TEST(Mad, IsWrittenInAllItsOctets) {
  Mad mad{.header = kHeader};
  mad.data.fill(std::byte{0x5a});
  EXPECT_EQ(emitted(mad), datagram(kHeaderOctets));
  EXPECT_EQ(emitted(Mad{.header = kHeader}), datagram(kHeaderOctets, std::byte{0}));
}

TEST(MadView, ReadsEveryField) {
  const auto octets = datagram(kHeaderOctets);
  const auto mad = MadView::parse(octets);
  ASSERT_TRUE(mad);
  EXPECT_EQ(mad->mgmt_class(), MgmtClass::kCommunication);
  EXPECT_EQ(mad->class_version(), 2);
  EXPECT_EQ(mad->method(), MadMethod::kSend);
  EXPECT_EQ(mad->status(), 0x8102);
  EXPECT_EQ(mad->class_specific(), 0x0304);
  EXPECT_EQ(mad->transaction(), TransactionId{0x1112131415161718});
  EXPECT_EQ(mad->attribute_id(), 0x0010);
  EXPECT_EQ(mad->attribute_modifier(), 0x21222324U);
  EXPECT_EQ(mad->header(), kHeader);
  EXPECT_EQ(mad->data().data(), octets.data() + 24);
  EXPECT_EQ(mad->data().size(), 232U);
  EXPECT_EQ(mad->octets().data(), octets.data());
}

TEST(MadView, LosesOnlyTheReservedOctetsOnTheWayToAValue) {
  auto octets = datagram(kHeaderOctets);
  octets[18] = octets[19] = std::byte{0xff};
  const auto mad = MadView::parse(octets);
  ASSERT_TRUE(mad);
  EXPECT_EQ(emitted(mad->value()), datagram(kHeaderOctets));
}

TEST(MadView, RefusesEveryLengthButOne) {
  for (std::size_t size = 0; size < 2 * Mad::kSize; ++size) {
    auto octets = datagram(kHeaderOctets);
    octets.resize(size);
    const auto mad = MadView::parse(octets);
    ASSERT_EQ(mad.ok(), size == Mad::kSize) << size;
    if (mad) continue;
    EXPECT_EQ(mad.error(), size < Mad::kSize ? WireError::kTruncated : WireError::kBadLength);
  }
}

TEST(MadView, RefusesEveryBaseVersionButOne) {
  for (unsigned version = 0; version < 256; ++version) {
    auto octets = datagram(kHeaderOctets);
    octets[0] = static_cast<std::byte>(version);
    const auto mad = MadView::parse(octets);
    ASSERT_EQ(mad.ok(), version == 1);
    if (!mad) {
      EXPECT_EQ(mad.error(), WireError::kBadVersion);
    }
  }
}

TEST(Mad, SurvivesTheRoundTrip) {
  Prng prng(61);
  for (int i = 0; i < 1000; ++i) {
    auto octets = test::random_octets(prng, Mad::kSize);
    octets[0] = std::byte{1};
    octets[18] = octets[19] = std::byte{0};
    const auto mad = MadView::parse(octets);
    ASSERT_TRUE(mad);
    EXPECT_EQ(emitted(mad->value()), octets);
  }
}

TEST(Mad, ClassesAndMethodsHaveTheNumbersOfTheTables) {
  EXPECT_EQ(static_cast<unsigned>(MgmtClass::kSubnetLidRouted), 0x01U);
  EXPECT_EQ(static_cast<unsigned>(MgmtClass::kSubnetAdministration), 0x03U);
  EXPECT_EQ(static_cast<unsigned>(MgmtClass::kPerformance), 0x04U);
  EXPECT_EQ(static_cast<unsigned>(MgmtClass::kCommunication), 0x07U);
  EXPECT_EQ(static_cast<unsigned>(MgmtClass::kSubnetDirectedRoute), 0x81U);
  EXPECT_EQ(static_cast<unsigned>(MadMethod::kGet), 0x01U);
  EXPECT_EQ(static_cast<unsigned>(MadMethod::kSet), 0x02U);
  EXPECT_EQ(static_cast<unsigned>(MadMethod::kSend), 0x03U);
  EXPECT_EQ(static_cast<unsigned>(MadMethod::kTrap), 0x05U);
  EXPECT_EQ(static_cast<unsigned>(MadMethod::kTrapRepress), 0x07U);
  EXPECT_EQ(static_cast<unsigned>(MadMethod::kGetResp), 0x81U);
}

}  // namespace
}  // namespace verbatim::wire
