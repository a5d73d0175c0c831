// SPDX-License-Identifier: Apache-2.0
#include "udp/udp_table.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "udp/test_network.h"

namespace verbatim::link {
namespace {

// Lines as a little-endian system writes them.
constexpr std::string_view kHeading =
    "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode ref pointer drops             \n";
constexpr std::string_view kLine =
    "  424: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 "
    "71234 2 0000000000000000 0         \n";
constexpr std::string_view kLine6 =
    "  425: 00000000000000000000000001000000:12B7 00000000000000000000000000000000:0000 07 "
    "00000000:00000000 00:00000000 00000000 65534        0 71235 2 0000000000000000 0\n";

TEST(UdpTable, ReadsALine) {
  const auto entry = parse_udp_table_line(kLine);
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->address, test::ipv4(127, 0, 0, 1));
  EXPECT_EQ(entry->port, 4791);
  EXPECT_EQ(entry->uid, 1000U);
  EXPECT_EQ(entry->inode, 71234U);
  EXPECT_FALSE(entry->may_take_all_like(entry->address));
  const auto entry6 = parse_udp_table_line(kLine6);
  ASSERT_TRUE(entry6.has_value());
  EXPECT_EQ(entry6->address, test::ipv6_loopback());
  EXPECT_EQ(entry6->uid, 65534U);
}

TEST(UdpTable, ReadsNothingFromWhatIsNoLine) {
  EXPECT_FALSE(parse_udp_table_line(kHeading));
  EXPECT_FALSE(parse_udp_table_line(""));
  for (std::size_t length = 0; length < kLine.find("71234"); ++length) {
    EXPECT_FALSE(parse_udp_table_line(kLine.substr(0, length))) << length;
  }
  Prng prng(1);
  for (int i = 0; i < 10'000; ++i) {  // any text: no octet beyond it is read
    std::string line(kLine);
    for (int change = 0; change < 4; ++change) {
      line[prng.below(line.size())] = static_cast<char>(prng.below(256));
    }
    (void)parse_udp_table_line(std::string(line.data(), prng.below(line.size())));
  }
}

TEST(UdpTable, FindsTheHolderOfAPort) {
  test::in_a_private_network([] {
    const LocalAddress home{.gid = test::ipv4(127, 0, 0, 1)};
    EXPECT_EQ(count_sockets(home, kRocePort), 0U);
    EXPECT_EQ(name_port_holder(home, kRocePort), "");
    auto first = UdpSocket::open_receiver(home, kRocePort);
    auto second = UdpSocket::open_receiver(home, kRocePort);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(count_sockets(home, kRocePort), 2U);
    EXPECT_EQ(count_sockets({.gid = test::ipv6_loopback()}, kRocePort), 0U);
    const std::string holder = name_port_holder(home, kRocePort);
    EXPECT_NE(holder.find("process " + std::to_string(::getpid()) + " ("), std::string::npos)
        << holder;
    EXPECT_NE(holder.find("user "), std::string::npos) << holder;
  });
}

TEST(UdpTable, ASocketAtEveryAddressHoldsThePortToo) {
  test::in_a_private_network([] {
    auto wildcard = UdpSocket::open_receiver({.gid = test::ipv4(0, 0, 0, 0)}, kRocePort);
    ASSERT_TRUE(wildcard.ok());
    EXPECT_NE(name_port_holder({.gid = test::ipv4(127, 0, 0, 1)}, kRocePort), "");
    EXPECT_EQ(name_port_holder({.gid = test::ipv6_loopback()}, kRocePort), "");
    EXPECT_FALSE(user_of_port({.gid = test::ipv4(127, 0, 0, 1)}, kRocePort))
        << "it may or may not keep others from that address";
  });
}

}  // namespace
}  // namespace verbatim::link
