// SPDX-License-Identifier: Apache-2.0
#include "wire/management/port_info.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::first;
using test::hex;

PortInfo example() {
  PortInfo info;
  info.mkey = MKey{0x0102030405060708};
  info.gid_prefix = 0xfe80000000000000;
  info.lid = Lid{0x1112};
  info.sm_lid = Lid{0x2122};
  info.capability_mask = 0x31323334;
  info.diagnostics = 0x4142;
  info.mkey_lease_seconds = 0x5152;
  info.local_port = 0x61;
  info.width_enabled = 0x02;
  info.width_supported = 0x03;
  info.width_active = 0x01;
  info.speed_supported = 7;
  info.state = PortState::kActive;
  info.physical_state = PortPhysicalState::kLinkUp;
  info.down_default = 2;
  info.mkey_protection = 3;
  info.lmc = 5;
  info.speed_active = 4;
  info.speed_enabled = 6;
  info.neighbor_mtu = 5;
  info.sm_level = 9;
  info.vl_limit = 4;
  info.init_type = 8;
  info.vl_high_limit = 0x71;
  info.vl_high_entries = 0x72;
  info.vl_low_entries = 0x73;
  info.init_reply = 1;
  info.mtu_limit = 5;
  info.vl_stall_count = 7;
  info.queue_life = 0x12;
  info.operational_vls = 3;
  info.enforces_pkey_inbound = true;
  info.filters_raw_outbound = true;
  info.mkey_violations = 0x8182;
  info.pkey_violations = 0x8384;
  info.qkey_violations = 0x8586;
  info.guid_limit = 0x91;
  info.client_reregister = true;
  info.multicast_pkey_trap_suppression = 1;
  info.subnet_timeout = 0x12;
  info.response_time = 0x13;
  info.physical_error_threshold = 0xa;
  info.overrun_threshold = 0xb;
  info.credit_hint = 0xa1a2;
  info.speed_2_active = 1;
  info.speed_2_supported = 2;
  info.speed_2_enabled = 5;
  info.round_trip = 0xb1b2b3;
  info.capability_mask_2 = 0xc1c2;
  info.extended_speed_active = 2;
  info.extended_speed_supported = 7;
  info.extended_speed_enabled = 0x1e;
  return info;
}

test::Octets example_octets() {
  return hex(
      "0102030405060708 fe80000000000000 1112 2122 31323334 4142 5152"
      "61 02 03 01 74 52 c5 46 59 48 71 72 73 15 f2 39"
      "8182 8384 8586 91 b2 13 ab a1a2 35 b1b2b3 c1c2 27 1e");
}

TEST(PortInfo, IsWrittenAndReadAsTheFigureShows) {
  EXPECT_EQ(emitted(example()), example_octets());
  EXPECT_EQ(PortInfo::from(first<64>(example_octets())), example());
}

TEST(PortInfo, ReservedBitsAreNotPartOfIt) {
  auto octets = example_octets();
  octets[34] |= std::byte{0x38};
  octets[52] |= std::byte{0xe0};
  octets[56] |= std::byte{0x80};
  octets[63] |= std::byte{0xe0};
  EXPECT_EQ(PortInfo::from(first<64>(octets)), example());
}

TEST(PortInfo, ChecksOfPartitionsAndRawPacketsHaveABitEach) {
  PortInfo info;
  info.enforces_pkey_outbound = true;
  info.filters_raw_inbound = true;
  EXPECT_EQ(emitted(info)[43], std::byte{0x06});
  EXPECT_EQ(PortInfo::from(first<64>(emitted(info))), info);
}

TEST(PortInfo, AnyOctetsAreReadAndWrittenBack) {
  Prng prng(1);
  for (int i = 0; i < 200; ++i) {
    auto octets = test::random_octets(prng, PortInfo::kSize);
    const auto info = PortInfo::from(first<64>(octets));
    EXPECT_EQ(PortInfo::from(first<64>(emitted(info))), info);
    octets[34] &= std::byte{0xc7};
    octets[52] &= std::byte{0x1f};
    octets[56] &= std::byte{0x7f};
    octets[63] &= std::byte{0x1f};
    EXPECT_EQ(emitted(info), octets);
  }
}

}  // namespace
}  // namespace verbatim::wire
