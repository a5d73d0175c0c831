// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/link_training.h"

#include <gtest/gtest.h>

namespace verbatim::fabric {
namespace {

wire::PortInfo port(LinkRate rate) {
  wire::PortInfo info;
  set_supported_rate(info, rate);
  return info;
}

TEST(LinkTraining, TwoEqualPortsGetTheirRate) {
  for (const auto speed : {LinkSpeed::kSdr, LinkSpeed::kDdr, LinkSpeed::kQdr, LinkSpeed::kFdr,
                           LinkSpeed::kEdr, LinkSpeed::kHdr, LinkSpeed::kNdr, LinkSpeed::kXdr}) {
    for (const auto width :
         {LinkWidth::k1x, LinkWidth::k2x, LinkWidth::k4x, LinkWidth::k8x, LinkWidth::k12x}) {
      const LinkRate rate{.width = width, .speed = speed};
      auto a = port(rate);
      auto b = port(rate);
      ASSERT_TRUE(train(a, b)) << text_of(rate);
      EXPECT_EQ(active_rate(a), rate) << text_of(active_rate(a));
      EXPECT_EQ(active_rate(b), rate);
    }
  }
}

TEST(LinkTraining, AnEdrPortSaysSoAsTheSpecificationHasIt) {
  auto info = port({.width = LinkWidth::k4x, .speed = LinkSpeed::kEdr});
  EXPECT_EQ(info.width_supported, 3) << "1x and 4x";
  EXPECT_EQ(info.speed_supported, 7) << "SDR, DDR, QDR";
  EXPECT_EQ(info.extended_speed_supported, 3) << "FDR, EDR";
  EXPECT_EQ(info.speed_active, 4) << "QDR where only the old field is read";
  EXPECT_EQ(info.extended_speed_active, 2) << "EDR";
  EXPECT_EQ(info.capability_mask_2, 0);
}

TEST(LinkTraining, ANewSpeedHasACapabilityOfItsOwn) {
  EXPECT_EQ(port({.speed = LinkSpeed::kHdr}).capability_mask_2, 0x0020);
  EXPECT_EQ(port({.speed = LinkSpeed::kNdr}).capability_mask_2, 0x0420);
  EXPECT_EQ((port({.width = LinkWidth::k2x, .speed = LinkSpeed::kHdr}).capability_mask_2), 0x0030);
}

TEST(LinkTraining, TheSlowerEndDecides) {
  auto a = port({.width = LinkWidth::k12x, .speed = LinkSpeed::kNdr});
  auto b = port({.width = LinkWidth::k4x, .speed = LinkSpeed::kQdr});
  ASSERT_TRUE(train(a, b));
  EXPECT_EQ(active_rate(a), (LinkRate{.width = LinkWidth::k4x, .speed = LinkSpeed::kQdr}));
  EXPECT_EQ(a.extended_speed_active, 0);
}

TEST(LinkTraining, WhatIsNotEnabledIsNotUsed) {
  auto a = port({.width = LinkWidth::k4x, .speed = LinkSpeed::kEdr});
  auto b = a;
  a.extended_speed_enabled = 0;
  b.width_enabled = 1;
  ASSERT_TRUE(train(a, b));
  EXPECT_EQ(active_rate(b), (LinkRate{.width = LinkWidth::k1x, .speed = LinkSpeed::kQdr}));
}

TEST(LinkTraining, EndsWithNothingInCommonHaveNoLink) {
  auto a = port({.width = LinkWidth::k4x, .speed = LinkSpeed::kEdr});
  auto b = a;
  a.width_enabled = 1;
  b.width_enabled = 2;
  EXPECT_FALSE(train(a, b));
}

}  // namespace
}  // namespace verbatim::fabric
