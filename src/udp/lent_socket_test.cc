// SPDX-License-Identifier: Apache-2.0
#include "udp/lent_socket.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <sys/socket.h>

#include "udp/test_member.h"

namespace verbatim::link {
namespace {

using test::has_packet;
using test::in_a_private_network;
using test::kHome;
using test::packet_for;
using test::send_to;

constexpr LentNote kNote{.use = LentNote::Use::kSlot, .slot = 1, .borrower = 4711};

TEST(LentSocket, SaysWhoseItIs) {
  in_a_private_network([] {
    const LentNote spare{.use = LentNote::Use::kSpare, .slot = 200, .borrower = 0};
    for (const LentNote& note : {kNote, spare}) {
      const auto socket = open_lent({.gid = kHome}, kRocePort, note);
      ASSERT_TRUE(socket.ok());
      EXPECT_EQ(note_of(socket->descriptor()), note);
      EXPECT_EQ(lender_of(socket->descriptor()), ::geteuid());
    }
  });
}

TEST(LentSocket, AnOrdinaryOneSaysNothing) {
  in_a_private_network([] {
    const auto socket = UdpSocket::open_receiver({.gid = kHome}, kRocePort);
    ASSERT_TRUE(socket.ok());
    EXPECT_EQ(note_of(socket->descriptor()), std::nullopt);
    EXPECT_EQ(lender_of(socket->descriptor()), std::nullopt);
  });
}

TEST(LentSocket, ANoteInFrontOfAnotherFilterIsNone) {
  in_a_private_network([] {
    sock_filter all[] = {{.code = BPF_LD | BPF_IMM, .jt = 0, .jf = 0, .k = 0x56424c31},
                         {.code = BPF_LD | BPF_IMM, .jt = 0, .jf = 0, .k = 4711},
                         {.code = BPF_LD | BPF_IMM, .jt = 0, .jf = 0, .k = 1 << 16 | 1},
                         {.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0xffff}};
    const auto socket = UdpSocket::open_locked({.gid = kHome}, kRocePort, all);
    ASSERT_TRUE(socket.ok());
    EXPECT_EQ(note_of(socket->descriptor()), std::nullopt);
  });
}

// The borrower cannot make the socket receive packets of other slots.
TEST(LentSocket, AdmitsThePacketsOfItsSlotOnly) {
  in_a_private_network([] {
    auto own = UdpSocket::open_receiver({.gid = kHome}, kRocePort);
    auto lent = open_lent({.gid = kHome}, kRocePort, kNote);
    ASSERT_TRUE(own.ok() && lent.ok());
    const int socket = lent->descriptor();
    const auto admits = [&](std::uint32_t slot) {
      for (int i = 0; i < 20; ++i) send_to(kHome, packet_for(slot));  // from as many ports
      return has_packet(*lent, test::kDoubtMs);
    };
    EXPECT_TRUE(admits(1));
    while (has_packet(*lent, 0)) continue;
    EXPECT_FALSE(admits(0));

    const int off = 0;
    sock_filter all[] = {{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0xffff}};
    const sock_fprog everything{.len = 1, .filter = all};
    for (const int option : {SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF}) {
      EXPECT_NE(::setsockopt(socket, SOL_SOCKET, option, &everything, sizeof everything), 0);
    }
    for (const int option : {SO_DETACH_FILTER, SO_LOCK_FILTER}) {
      EXPECT_NE(::setsockopt(socket, SOL_SOCKET, option, &off, sizeof off), 0);
    }
    // The kernel lets every holder take the steering program away: then packets go anywhere.
    (void)::setsockopt(socket, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &off, sizeof off);
    EXPECT_FALSE(admits(0));
    // A connected socket is preferred to all others.
    SocketAddress to{};
    const socklen_t octets = store_address(to, kHome, 50'000, 0);
    const int sender = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::bind(sender, &to.base, octets), 0);
    ASSERT_EQ(::connect(socket, &to.base, octets), 0);
    (void)store_address(to, kHome, kRocePort, 0);
    const auto foreign = packet_for(0);
    const auto own_packet = packet_for(1);
    (void)!::sendto(sender, foreign.data(), foreign.size(), 0, &to.base, octets);
    EXPECT_FALSE(has_packet(*lent, test::kDoubtMs));
    (void)!::sendto(sender, own_packet.data(), own_packet.size(), 0, &to.base, octets);
    EXPECT_TRUE(has_packet(*lent));
    ::close(sender);
  });
}

TEST(LentSocket, ASpareAdmitsNothing) {
  in_a_private_network([] {
    const auto spare = open_lent({.gid = kHome}, kRocePort, {.use = LentNote::Use::kSpare});
    ASSERT_TRUE(spare.ok());
    for (std::uint32_t slot = 0; slot < 256; ++slot) send_to(kHome, packet_for(slot));
    EXPECT_FALSE(has_packet(*spare, test::kDoubtMs));
  });
}

}  // namespace
}  // namespace verbatim::link
