// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/smp.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::hex;

/// From octet 0 up to the paths; what is not given is zero.
test::Octets packet(std::string_view head) {
  auto octets = hex(head);
  octets.resize(Smp::kSize);
  return octets;
}

Smp directed() {
  Smp smp{.method = MadMethod::kGetResp,
          .status = SmpStatus::kInvalidField,
          .returning = true,
          .hop_pointer = 2,
          .hop_count = 3,
          .transaction = TransactionId{0x1234},
          .attribute = SmpAttribute::kNodeInfo,
          .attribute_modifier = 0x51525354,
          .mkey = MKey{0x6162636465666768},
          .dr_source = Lid{0x7172},
          .dr_destination = Lid{0x7374}};
  smp.data.front() = std::byte{0x81};
  smp.data.back() = std::byte{0x82};
  smp.initial_path[1] = std::byte{0x91};
  smp.initial_path.back() = std::byte{0x92};
  smp.return_path[1] = std::byte{0xa1};
  smp.return_path.back() = std::byte{0xa2};
  return smp;
}

test::Octets directed_octets() {
  auto octets = packet(
      "01 81 01 81 801c 02 03 0000000000001234 0011 0000 51525354"
      "6162636465666768 7172 7374");
  octets[64] = std::byte{0x81};
  octets[127] = std::byte{0x82};
  octets[129] = std::byte{0x91};
  octets[191] = std::byte{0x92};
  octets[193] = std::byte{0xa1};
  octets[255] = std::byte{0xa2};
  return octets;
}

TEST(Smp, OnADirectedRouteIsWrittenAsTheFigureShows) {
  EXPECT_EQ(emitted(directed()), directed_octets());
}

TEST(Smp, OnTheLidRouteLeavesThePathAndTheHopsZero) {
  Smp smp = directed();
  smp.route = SmpRoute::kLid;
  auto octets =
      packet("01 01 01 81 001c 00 00 0000000000001234 0011 0000 51525354 6162636465666768");
  octets[64] = std::byte{0x81};
  octets[127] = std::byte{0x82};
  EXPECT_EQ(emitted(smp), octets);
}

TEST(Smp, KeepsItsStatusOutOfTheDirectionBit) {
  EXPECT_EQ(emitted(Smp{.status = SmpStatus{0xffff}})[4], std::byte{0x7f});
  EXPECT_EQ(emitted(Smp{.returning = true})[4], std::byte{0x80});
}

TEST(SmpView, ReadsEveryFieldOfADirectedRoute) {
  const auto octets = directed_octets();
  const auto mad = MadView::parse(octets);
  ASSERT_TRUE(mad);
  const auto smp = SmpView::parse(*mad);
  ASSERT_TRUE(smp);
  EXPECT_TRUE(smp->is_directed());
  EXPECT_EQ(smp->method(), MadMethod::kGetResp);
  EXPECT_EQ(smp->status(), SmpStatus::kInvalidField);
  EXPECT_TRUE(smp->returning());
  EXPECT_EQ(smp->hop_pointer(), 2);
  EXPECT_EQ(smp->hop_count(), 3);
  EXPECT_EQ(smp->transaction(), TransactionId{0x1234});
  EXPECT_EQ(smp->attribute(), SmpAttribute::kNodeInfo);
  EXPECT_EQ(smp->attribute_modifier(), 0x51525354U);
  EXPECT_EQ(smp->mkey(), MKey{0x6162636465666768});
  EXPECT_EQ(smp->dr_source(), Lid{0x7172});
  EXPECT_EQ(smp->dr_destination(), Lid{0x7374});
  EXPECT_EQ(smp->data().data(), octets.data() + 64);
  EXPECT_EQ(smp->initial_path().data(), octets.data() + 128);
  EXPECT_EQ(smp->return_path().data(), octets.data() + 192);
  EXPECT_EQ(smp->value(), directed());
}

TEST(SmpView, OnTheLidRouteHasAStatusOfSixteenBits) {
  const auto octets = packet("01 01 01 81 801c");
  const auto mad = MadView::parse(octets);
  ASSERT_TRUE(mad);
  const auto smp = SmpView::parse(*mad);
  ASSERT_TRUE(smp);
  EXPECT_FALSE(smp->is_directed());
  EXPECT_EQ(smp->status(), SmpStatus{0x801c});
  EXPECT_EQ(emitted(smp->value()), octets);
}

TEST(SmpView, RefusesOtherClassesAndVersions) {
  for (unsigned mgmt_class = 0; mgmt_class < 256; ++mgmt_class) {
    auto octets = directed_octets();
    octets[1] = static_cast<std::byte>(mgmt_class);
    const auto mad = MadView::parse(octets);
    ASSERT_TRUE(mad);
    const auto smp = SmpView::parse(*mad);
    ASSERT_EQ(smp.ok(), mgmt_class == 0x01 || mgmt_class == 0x81);
    if (!smp) {
      EXPECT_EQ(smp.error(), WireError::kBadClass);
    }
  }
  auto octets = directed_octets();
  octets[2] = std::byte{2};
  const auto mad = MadView::parse(octets);
  ASSERT_TRUE(mad);
  const auto smp = SmpView::parse(*mad);
  ASSERT_FALSE(smp);
  EXPECT_EQ(smp.error(), WireError::kBadVersion);
}

TEST(Smp, SurvivesTheRoundTrip) {
  Prng prng(85);
  for (int i = 0; i < 1000; ++i) {
    auto octets = test::random_octets(prng, Smp::kSize);
    const bool is_directed = prng.one_in(2);
    octets[0] = std::byte{1};
    octets[1] = is_directed ? std::byte{0x81} : std::byte{0x01};
    octets[2] = std::byte{1};
    const auto clear = [&](std::size_t first, std::size_t end) {
      std::fill(octets.data() + first, octets.data() + end, std::byte{0});
    };
    clear(18, 20);
    clear(36, 64);
    if (!is_directed) {
      clear(6, 8);
      clear(32, 36);
      clear(128, 256);
    }
    const auto mad = MadView::parse(octets);
    ASSERT_TRUE(mad);
    const auto smp = SmpView::parse(*mad);
    ASSERT_TRUE(smp);
    EXPECT_EQ(emitted(smp->value()), octets);
  }
}

TEST(SmpAttribute, HasTheNumbersOfTheTable) {
  using enum SmpAttribute;
  const std::pair<SmpAttribute, unsigned> kTable[] = {
      {kNotice, 0x02},
      {kNodeDescription, 0x10},
      {kNodeInfo, 0x11},
      {kSwitchInfo, 0x12},
      {kGuidInfo, 0x14},
      {kPortInfo, 0x15},
      {kPKeyTable, 0x16},
      {kSlToVlTable, 0x17},
      {kVlArbitrationTable, 0x18},
      {kLinearForwardingTable, 0x19},
      {kMulticastForwardingTable, 0x1b},
      {kSmInfo, 0x20},
      {kLedInfo, 0x31},
  };
  for (const auto& [attribute, number] : kTable) {
    EXPECT_EQ(static_cast<unsigned>(attribute), number);
  }
}

TEST(SmpStatus, HasTheNumbersOfTheTable) {
  EXPECT_EQ(static_cast<unsigned>(SmpStatus::kBadVersion), 0x0004U);
  EXPECT_EQ(static_cast<unsigned>(SmpStatus::kUnsupportedMethod), 0x0008U);
  EXPECT_EQ(static_cast<unsigned>(SmpStatus::kUnsupportedMethodOrAttribute), 0x000cU);
  EXPECT_EQ(static_cast<unsigned>(SmpStatus::kInvalidField), 0x001cU);
}

}  // namespace
}  // namespace verbatim::wire
