// SPDX-License-Identifier: Apache-2.0
#include "wire/management/notice.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"
#include "wire/management/trap_details.h"

namespace verbatim::wire {
namespace {

using test::hex;

/// Details as the figure has them; what is not given is zero.
TrapDetails details(std::string_view text) {
  const auto octets = hex(text);
  TrapDetails details{};
  std::ranges::copy(octets, details.begin());
  return details;
}

TEST(Notice, IsWrittenAndReadAsTheFigureShows) {
  Notice notice{.type = NoticeType::kUrgent,
                .producer = NodeType::kSwitch,
                .number = TrapNumber::kLinkStateChange,
                .issuer = Lid{0x0203},
                .toggle_and_count = 0x8001};
  notice.details.front() = std::byte{0x11};
  notice.details.back() = std::byte{0x12};
  auto octets = hex("81 000002 0080 0203 8001 11");
  octets.resize(Notice::kSize);
  octets.back() = std::byte{0x12};
  EXPECT_EQ(test::emitted(notice), octets);
  EXPECT_EQ(Notice::from(test::first<64>(octets)), notice);
}

TEST(TrapDetails, ALinkStateChangeNamesTheSwitch) {
  EXPECT_EQ(LinkStateChange{.lid = Lid{0x0102}}.details(), details("0102"));
}

TEST(TrapDetails, ALinkErrorNamesThePort) {
  EXPECT_EQ((LinkErrorReport{.lid = Lid{0x0102}, .port = 3}.details()), details("0000 0102 03"));
}

TEST(TrapDetails, LocalChangesNameWhatHasChanged) {
  EXPECT_EQ((LocalChanges{.lid = Lid{0x0102}, .capability_mask = 0x03040506}.details()),
            details("0000 0102 00 00 03040506"));
  EXPECT_EQ((LocalChanges{.lid = Lid{0x0102},
                          .has_other_changes = true,
                          .capability_mask = 0x03040506,
                          .changes = LocalChanges::kDescription,
                          .capability_mask_2 = 0x0708}
                 .details()),
            details("0000 0102 00 01 03040506 0001 0708"));
}

TEST(TrapDetails, ABadMKeyNamesThePacket) {
  const BadMKey by_lid{.lid = Lid{0x0102},
                       .dr_source = Lid{0xffff},
                       .method = MadMethod::kSet,
                       .attribute_id = 0x0015,
                       .attribute_modifier = 0x03040506,
                       .mkey = MKey{0x1112131415161718}};
  EXPECT_EQ(by_lid.details(), details("0000 0102 0000 02 00 0015 03040506 1112131415161718"));
  BadMKey directed = by_lid;
  directed.is_directed = true;
  directed.hop_count = 2;
  directed.return_path[1] = std::byte{0x21};
  directed.return_path[2] = std::byte{0x22};
  directed.return_path[3] = std::byte{0x23};
  EXPECT_EQ(directed.details(),
            details("0000 0102 ffff 02 00 0015 03040506 1112131415161718 00 82 2122"));
}

TEST(TrapDetails, OfALongPathABadMKeyHasTheFirstHops) {
  BadMKey directed{.is_directed = true, .hop_count = 63};
  directed.return_path.fill(std::byte{7});
  const auto octets = directed.details();
  EXPECT_EQ(octets[23], std::byte{0xc0 | 30});
  EXPECT_EQ(octets[53], std::byte{7});
}

TEST(TrapDetails, ABadKeyNamesBothEnds) {
  EXPECT_EQ((BadKey{.source = Lid{0x0102},
                    .destination = Lid{0x0304},
                    .key = 0x05060708,
                    .level = ServiceLevel{9},
                    .source_qp = QpNumber{0x111213},
                    .dest_qp = QpNumber{0x212223},
                    .source_gid = test::gid("31323334 35363738 393a3b3c 3d3e3f40"),
                    .destination_gid = test::gid("41424344 45464748 494a4b4c 4d4e4f50")}
                 .details()),
            details("0000 0102 0304 05060708 90 111213 00 212223"
                    "31323334 35363738 393a3b3c 3d3e3f40 41424344 45464748 494a4b4c 4d4e4f50"));
}

TEST(TrapDetails, ABadPKeyAtASwitchPortNamesThePort) {
  auto expected = details("e700 0102 0304 8005 60 000001 00 000002");
  expected[48] = std::byte{0x07};
  expected[49] = std::byte{0x08};
  expected[50] = std::byte{9};
  EXPECT_EQ((BadPKeyAtSwitchPort{.source = Lid{0x0102},
                                 .destination = Lid{0x0304},
                                 .pkey = PKey{0x8005},
                                 .level = ServiceLevel{6},
                                 .source_qp = QpNumber{1},
                                 .dest_qp = QpNumber{2},
                                 .switch_lid = Lid{0x0708},
                                 .port = 9}
                 .details()),
            expected);
}

}  // namespace
}  // namespace verbatim::wire
