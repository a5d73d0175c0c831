// SPDX-License-Identifier: Apache-2.0
// A user that gets no socket of the port is told why, and what to do.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <initializer_list>
#include <string>

#include "udp/test_users.h"
#include "udp/udp_link.h"

namespace verbatim::link {
namespace {

using test::as_root_in_a_private_network;
using test::Bystander;
using test::expect_reachable;
using test::in_a_child;
using test::kBorrower;
using test::kOwner;
using test::kThird;
using test::Member;
using test::start;
using test::UserProcess;
using test::Users;

/// Joins as a user, and expects that the port is refused with these words in the message.
void expect_refusal(uid_t user, std::initializer_list<const char*> words) {
  const int ended = in_a_child([&] {
    ASSERT_EQ(::setresuid(user, user, user), 0);
    Member member;
    EXPECT_EQ(member.join().error(), Errc::kAddressInUse);
    for (const char* word : words) {
      EXPECT_NE(member.message.find(word), std::string::npos) << word << ": " << member.message;
    }
  });
  EXPECT_EQ(ended, 0);
}

TEST(SharedPortRefused, AThirdUserIsToldWhenTheOwnerHasEnded) {
  as_root_in_a_private_network([] {
    Users users;
    start(users, kOwner);
    start(users, kBorrower);
    users.erase(users.begin());
    expect_refusal(kThird,
                   {"held by user 61001", "has ended while other users", "another address"});
    expect_reachable(users);
  });
}

TEST(SharedPortRefused, AUserIsToldWhenTheOwnerHasChangedItsUser) {
  as_root_in_a_private_network([] {
    const Bystander daemon(0, [](auto ready) {
      Member member;
      if (!member.join() || ::setresuid(kOwner, kOwner, kOwner) != 0) return;
      ready();
      ::pause();
    });
    expect_refusal(kBorrower,
                   {"held by user root (uid 0)", "changed their user id", "another address"});
    UserProcess another(0);
    EXPECT_LT(another.slot(), 256U);
    UserProcess borrower(kBorrower);
    EXPECT_LT(borrower.slot(), 256U) << "one process that is root is enough";
  });
}

TEST(SharedPortRefused, ASocketAtAllIpv6AddressesKeepsNoUserFromAnIpv4Address) {
  as_root_in_a_private_network([] {
    const Bystander other(kThird, [](auto ready) {
      const int socket = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      const int on = 1;
      SocketAddress all{};
      all.v6.sin6_family = AF_INET6;
      all.v6.sin6_port = htons(kRocePort);
      if (::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) != 0 ||
          ::bind(socket, &all.base, sizeof all.v6) != 0) {
        return;
      }
      ready();
      ::pause();
    });
    Users users;
    start(users, kOwner);
    start(users, kBorrower);
    expect_reachable(users);
  });
}

TEST(SharedPortRefused, AUserIsToldWhichUserHasASocketAtAllAddresses) {
  as_root_in_a_private_network([] {
    const Bystander other(kThird, [](auto ready) {
      auto all = UdpSocket::open_receiver({.gid = test::ipv4(0, 0, 0, 0)}, kRocePort);
      if (!all) return;
      ready();
      ::pause();
    });
    expect_refusal(kOwner, {"held by user 61003", "another address"});
  });
}

TEST(SharedPortRefused, AProcessIsToldThatTheOnlyHolderIsStopped) {
  as_root_in_a_private_network([] {
    UserProcess owner(kOwner);
    ASSERT_EQ(owner.slot(), 0U);
    owner.signal(SIGSTOP);
    owner.wait_until_stopped();
    const int ended = in_a_child([] {
      ASSERT_EQ(::setresuid(kBorrower, kBorrower, kBorrower), 0);
      Member borrower;
      EXPECT_EQ(borrower.join().error(), Errc::kAddressInUse);
      EXPECT_NE(borrower.message.find("held by user 61001"), std::string::npos) << borrower.message;
      EXPECT_NE(borrower.message.find("kill -CONT"), std::string::npos) << borrower.message;
    });
    EXPECT_EQ(ended, 0);
    owner.signal(SIGCONT);
    UserProcess borrower(kBorrower);
    EXPECT_LT(borrower.slot(), 256U);
    EXPECT_TRUE(borrower.is_reachable());
    EXPECT_TRUE(owner.is_reachable());
  });
}

}  // namespace
}  // namespace verbatim::link
