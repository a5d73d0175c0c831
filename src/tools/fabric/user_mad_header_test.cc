// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/user_mad_header.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <chrono>

namespace verbatim::tools {
namespace {

host::UserMadHeader some_header() {
  host::UserMadHeader header;
  header.agent = 3;
  header.status = 110;
  header.timeout_ms = 200;
  header.retries = 4;
  header.qpn_be = htonl(1);
  header.qkey_be = htonl(0x8001'0000);
  header.lid_be = htons(0x1234);
  header.service_level = 5;
  header.path_bits = 1;
  header.has_grh = 1;
  header.gid_index = 2;
  header.hop_limit = 64;
  header.traffic_class = 7;
  header.gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
  header.flow_label_be = htonl(0x12345);
  header.pkey_index = 9;
  return header;
}

TEST(UserMadHeader, EachFieldHasItsMember) {
  const fabric::UserMad mad = mad_of(some_header(), std::vector<std::byte>(256));
  EXPECT_EQ(mad.agent, fabric::AgentId{3});
  EXPECT_EQ(mad.timeout, std::chrono::milliseconds(200));
  EXPECT_EQ(mad.retries, 4U);
  EXPECT_EQ(mad.address.qpn, wire::QpNumber::kGsi);
  EXPECT_EQ(mad.address.qkey, wire::QKey::kGsi);
  EXPECT_EQ(mad.address.lid, wire::Lid{0x1234});
  EXPECT_EQ(mad.address.level, wire::ServiceLevel{5});
  EXPECT_EQ(mad.address.path_bits, 1);
  EXPECT_TRUE(mad.address.has_grh);
  EXPECT_EQ(mad.address.gid.octets[0], 0xfe);
  EXPECT_EQ(mad.address.flow_label, 0x12345U);
  EXPECT_EQ(mad.pkey_index, 9);
  EXPECT_EQ(mad.octets.size(), 256U);
}

TEST(UserMadHeader, AMadGoesBackAsItCame) {
  fabric::UserMad mad = mad_of(some_header(), {});
  mad.status = 110;
  const host::UserMadHeader header = header_of(mad);
  const host::UserMadHeader some = some_header();
  EXPECT_EQ(header.agent, some.agent);
  EXPECT_EQ(header.status, some.status);
  EXPECT_EQ(header.timeout_ms, some.timeout_ms);
  EXPECT_EQ(header.retries, some.retries);
  EXPECT_EQ(header.qpn_be, some.qpn_be);
  EXPECT_EQ(header.qkey_be, some.qkey_be);
  EXPECT_EQ(header.lid_be, some.lid_be);
  EXPECT_EQ(header.service_level, some.service_level);
  EXPECT_EQ(header.path_bits, some.path_bits);
  EXPECT_EQ(header.has_grh, some.has_grh);
  EXPECT_EQ(header.gid_index, some.gid_index);
  EXPECT_EQ(header.hop_limit, some.hop_limit);
  EXPECT_EQ(header.traffic_class, some.traffic_class);
  EXPECT_EQ(header.gid, some.gid);
  EXPECT_EQ(header.flow_label_be, some.flow_label_be);
  EXPECT_EQ(header.pkey_index, some.pkey_index);
}

TEST(UserMadHeader, AProgramMayWaitForEver) {
  host::UserMadHeader header = some_header();
  header.timeout_ms = 0xffff'ffff;
  const fabric::UserMad mad = mad_of(header, {});
  EXPECT_GE(mad.timeout, std::chrono::hours(24));
  EXPECT_EQ(header_of(mad).timeout_ms, 0xffff'ffff);
}

TEST(UserMadHeader, ARegistrationNamesMethodsAndVendor) {
  host::FabricCall call;
  call.management_class = 0x32;
  call.class_version = 1;
  call.oui = 0x001405;
  call.rmpp_version = 1;
  call.qpn = 1;
  call.methods = {std::uint64_t{1} << 1 | std::uint64_t{1} << 63, 1};
  const fabric::Registration registration = registration_of(call).value();
  EXPECT_EQ(registration.mgmt_class, wire::MgmtClass{0x32});
  EXPECT_EQ(registration.oui, (std::array<std::uint8_t, 3>{0x00, 0x14, 0x05}));
  EXPECT_EQ(registration.qpn, wire::QpNumber::kGsi);
  EXPECT_EQ(registration.rmpp, fabric::RmppMode::kPort);
  EXPECT_EQ(registration.methods.count(), 3U);
  EXPECT_TRUE(registration.methods[1] && registration.methods[63] && registration.methods[64]);
}

TEST(UserMadHeader, AProgramMayDoRmppItself) {
  host::FabricCall call;
  call.rmpp_version = 1;
  call.flags = 1;
  call.management_class = 3;
  EXPECT_EQ(registration_of(call)->rmpp, fabric::RmppMode::kUser);
  EXPECT_EQ(registration_of({})->rmpp, fabric::RmppMode::kNone);
}

TEST(UserMadHeader, ARegistrationThatLinuxRefusesIsRefused) {
  const auto error = [](std::uint8_t management_class, std::uint32_t flags, std::uint8_t rmpp) {
    host::FabricCall call;
    call.management_class = management_class;
    call.flags = flags;
    call.rmpp_version = rmpp;
    return registration_of(call).error();
  };
  EXPECT_EQ(error(3, 2, 1), Errc::kInvalidArgument);
  EXPECT_EQ(error(3, 0, 2), Errc::kInvalidArgument);
  EXPECT_EQ(error(0, 1, 0), Errc::kInvalidArgument);
}

}  // namespace
}  // namespace verbatim::tools
