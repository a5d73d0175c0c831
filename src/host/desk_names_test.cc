// SPDX-License-Identifier: Apache-2.0
#include "host/desk_names.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "host/public_name.h"
#include "host/test_process.h"

namespace verbatim::host {
namespace {

constexpr std::string_view kPrefix = "verbatim/port/";
using Names = std::vector<std::string>;

int listen_at(const std::string& name) {
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  EXPECT_EQ(PublicName(name).bind(socket), 0);
  EXPECT_EQ(::listen(socket, 4), 0);
  return socket;
}

TEST(DeskNames, AreThoseOfListenersUnderThePrefix) {
  test::in_a_private_network([] {
    const int desk = listen_at("verbatim/port/1");
    (void)listen_at("verbatim/port/cm/2");
    (void)listen_at("verbatim/slot/3");
    const int silent = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    EXPECT_EQ(PublicName("verbatim/port/4").bind(silent), 0);
    const int client = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    EXPECT_EQ(PublicName("verbatim/port/1").connect(client), 0);
    EXPECT_GE(::accept(desk, nullptr, nullptr), 0);  // is listed with the name of the desk
    EXPECT_EQ(desk_names_of(::geteuid(), kPrefix), Names{"verbatim/port/1"});
    EXPECT_EQ(desk_names_of_all(kPrefix), Names{"verbatim/port/1"});
  });
}

TEST(DeskNames, AreAllThereHoweverManyThereAre) {
  test::in_a_private_network([] {
    constexpr int kCount = 700;  // more than one message of the kernel takes
    Names expected;
    for (int i = 0; i < kCount; ++i) {
      expected.push_back("verbatim/port/" + std::to_string(i));
      (void)listen_at(expected.back());
    }
    std::ranges::sort(expected);
    for (Names names : {desk_names_of(::geteuid(), kPrefix), desk_names_of_all(kPrefix)}) {
      std::ranges::sort(names);
      EXPECT_EQ(names, expected);
    }
  });
}

TEST(DeskNames, OfAnotherUserAreLeftOut) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  test::in_a_private_network([] {
    constexpr uid_t kOther = 54321;
    (void)listen_at("verbatim/port/1");
    EXPECT_EQ(test::in_a_child([] {
                ASSERT_EQ(::setresuid(kOther, kOther, kOther), 0);
                (void)listen_at("verbatim/port/2");
                EXPECT_EQ(desk_names_of(0, kPrefix), Names{"verbatim/port/1"});
                EXPECT_EQ(desk_names_of(kOther, kPrefix), Names{"verbatim/port/2"});
                EXPECT_EQ(desk_names_of_all(kPrefix).size(), 2U);
              }),
              0);
  });
}

}  // namespace
}  // namespace verbatim::host
