// SPDX-License-Identifier: Apache-2.0
#include "wire/management/switch_info.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::first;
using test::hex;

test::Octets attribute(std::string_view text) {
  auto octets = hex(text);
  octets.resize(SwitchInfo::kSize);
  return octets;
}

TEST(SwitchInfo, IsWrittenAndReadAsTheFigureShows) {
  const SwitchInfo info{.linear_limit = 0xc000,
                        .random_limit = 0x0102,
                        .multicast_limit = 0x4000,
                        .linear_top = 0x0304,
                        .default_port = 5,
                        .default_multicast_primary_port = 6,
                        .default_multicast_not_primary_port = 7,
                        .life_time = 0x12,
                        .port_state_change = true,
                        .optimized_sl_to_vl = 1,
                        .lids_per_port = 0x0809,
                        .partition_enforcement_limit = 0x0a0b,
                        .enforces_inbound = true,
                        .filters_raw_outbound = true,
                        .has_enhanced_port0 = true,
                        .multicast_top = 0xc0ff};
  const auto octets = attribute("c000 0102 4000 0304 05 06 07 95 0809 0a0b 98 00 c0ff");
  EXPECT_EQ(emitted(info), octets);
  EXPECT_EQ(SwitchInfo::from(first<64>(octets)), info);
}

TEST(SwitchInfo, EachFlagHasABitOfItsOwn) {
  EXPECT_EQ(emitted(SwitchInfo{.enforces_outbound = true})[16], std::byte{0x40});
  EXPECT_EQ(emitted(SwitchInfo{.filters_raw_inbound = true})[16], std::byte{0x20});
  const auto octets = attribute("0000 0000 0000 0000 00 00 00 00 0000 0000 60");
  EXPECT_TRUE(SwitchInfo::from(first<64>(octets)).enforces_outbound);
  EXPECT_TRUE(SwitchInfo::from(first<64>(octets)).filters_raw_inbound);
  EXPECT_FALSE(SwitchInfo::from(first<64>(octets)).enforces_inbound);
}

}  // namespace
}  // namespace verbatim::wire
