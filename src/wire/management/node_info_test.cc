// SPDX-License-Identifier: Apache-2.0
#include "wire/management/node_info.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::first;
using test::hex;

/// An attribute as the figure has it; what is not given is zero.
test::Octets attribute(std::string_view text) {
  auto octets = hex(text);
  octets.resize(NodeInfo::kSize);
  return octets;
}

TEST(NodeInfo, IsWrittenAndReadAsTheFigureShows) {
  const NodeInfo info{.type = NodeType::kSwitch,
                      .port_count = 36,
                      .system_guid = Guid{0x0102030405060708},
                      .node_guid = Guid{0x1112131415161718},
                      .port_guid = Guid{0x2122232425262728},
                      .pkey_limit = 0x3132,
                      .device_id = 0x4142,
                      .revision = 0x51525354,
                      .local_port = 0x61,
                      .vendor_id = 0x717273};
  const auto octets = attribute(
      "01 01 02 24 0102030405060708 1112131415161718 2122232425262728"
      "3132 4142 51525354 61 717273");
  EXPECT_EQ(emitted(info), octets);
  EXPECT_EQ(NodeInfo::from(first<64>(octets)), info);
}

TEST(NodeInfo, AVendorHasTwentyFourBits) {
  const auto octets = emitted(NodeInfo{.local_port = 1, .vendor_id = 0xff000002});
  EXPECT_EQ(NodeInfo::from(first<64>(octets)).local_port, 1);
  EXPECT_EQ(NodeInfo::from(first<64>(octets)).vendor_id, 2U);
}

}  // namespace
}  // namespace verbatim::wire
