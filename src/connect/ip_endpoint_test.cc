// SPDX-License-Identifier: Apache-2.0
#include "connect/ip_endpoint.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "wire/headers/test_octets.h"

namespace verbatim::connect {
namespace {

sockaddr_storage address(const std::string& text, std::uint16_t port) {
  sockaddr_storage storage{};
  sockaddr_in in{};
  sockaddr_in6 in6{};
  if (::inet_pton(AF_INET, text.c_str(), &in.sin_addr) == 1) {
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&storage, &in, sizeof in);
  } else {
    EXPECT_EQ(::inet_pton(AF_INET6, text.c_str(), &in6.sin6_addr), 1);
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(port);
    in6.sin6_scope_id = 3;
    std::memcpy(&storage, &in6, sizeof in6);
  }
  return storage;
}
IpEndpoint endpoint(const std::string& text, std::uint16_t port = 80) {
  const auto storage = address(text, port);
  const auto parsed = endpoint_of(reinterpret_cast<const sockaddr*>(&storage));
  EXPECT_TRUE(parsed);
  return *parsed;
}

TEST(IpEndpoint, AddressesGoThereAndBack) {
  for (const char* text : {"10.1.2.3", "0.0.0.0", "fe80::1", "::1", "2001:db8::7"}) {
    const auto before = address(text, 4791);
    sockaddr_storage after{};
    store(endpoint(text, 4791), after);
    EXPECT_EQ(std::memcmp(&before, &after, sizeof before), 0) << text;
  }
}

TEST(IpEndpoint, OtherFamiliesAreNone) {
  sockaddr_storage local{};
  local.ss_family = AF_UNIX;
  EXPECT_FALSE(endpoint_of(reinterpret_cast<const sockaddr*>(&local)));
  EXPECT_FALSE(endpoint_of(nullptr));
}

// A sockaddr_ib as rdma/ib.h lays it out: family, P_Key, flow, GID, service, its mask, scope.
TEST(IpEndpoint, AGidAndAServiceGoThereAndBack) {
  const auto octets = wire::test::hex(
      "0000 8001 00000000 fe800000000000000000000000000012"
      "0000000001061234 ffffffffffffffff 0000000000000000");
  sockaddr_storage before{};
  std::memcpy(&before, octets.data(), octets.size());
  before.ss_family = kFamilyIb;
  const auto parsed = endpoint_of(reinterpret_cast<const sockaddr*>(&before));
  ASSERT_TRUE(parsed && parsed->ib);
  EXPECT_EQ(parsed->address, wire::test::gid("fe800000000000000000000000000012"));
  EXPECT_EQ(parsed->port, 0x1234);
  EXPECT_EQ(parsed->ib->pkey, wire::PKey{0x8001});
  EXPECT_EQ(parsed->ib->service, 0x0106'1234U);
  EXPECT_FALSE(parsed->is_ipv4);
  EXPECT_FALSE(parsed->is_of_family(endpoint("fe80::12")));
  EXPECT_TRUE(parsed->is_of_family(IpEndpoint::any_like(*parsed)));
  sockaddr_storage after{};
  store(*parsed, after);
  EXPECT_EQ(std::memcmp(&before, &after, octets.size()), 0);
  EXPECT_EQ(octets_of(reinterpret_cast<const sockaddr*>(&after)), octets.size());
}

TEST(IpEndpoint, KnowsTheAddressesOfFabrics) {
  EXPECT_TRUE(endpoint("127.64.0.1").is_of_fabrics());
  EXPECT_TRUE(endpoint("127.127.255.255").is_of_fabrics());
  EXPECT_FALSE(endpoint("127.63.0.1").is_of_fabrics());
  EXPECT_FALSE(endpoint("127.128.0.1").is_of_fabrics());
  EXPECT_FALSE(endpoint("126.64.0.1").is_of_fabrics());
  IpEndpoint made = IpEndpoint::any(true);
  made.set_ipv4(0x7f40'0102);
  EXPECT_EQ(made.address, endpoint("127.64.1.2").address);
  EXPECT_EQ(made.ipv4(), 0x7f40'0102U);
}

TEST(IpEndpoint, AMappedAddressIsIpv4) {
  EXPECT_TRUE(endpoint("::ffff:10.1.2.3").is_ipv4);
  EXPECT_EQ(endpoint("::ffff:10.1.2.3").address, endpoint("10.1.2.3").address);
}

TEST(IpEndpoint, KnowsWildcardLoopbackAndLinkLocalAddresses) {
  EXPECT_TRUE(endpoint("0.0.0.0").is_any());
  EXPECT_TRUE(endpoint("::").is_any());
  EXPECT_FALSE(endpoint("0.0.0.1").is_any());
  EXPECT_TRUE(endpoint("127.9.9.9").is_loopback());
  EXPECT_TRUE(endpoint("::1").is_loopback());
  EXPECT_FALSE(endpoint("::2").is_loopback());
  EXPECT_TRUE(endpoint("fe80::5").is_link_local());
  EXPECT_EQ(endpoint("fe80::5").scope, 3U);
  EXPECT_TRUE(IpEndpoint::any(true).is_any());
  EXPECT_TRUE(IpEndpoint::any(true).address.is_ipv4_mapped());
  EXPECT_TRUE(IpEndpoint::any(false).is_any());
  EXPECT_FALSE(IpEndpoint::any(false).is_ipv4);
}

}  // namespace
}  // namespace verbatim::connect
