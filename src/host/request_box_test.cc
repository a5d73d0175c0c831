// SPDX-License-Identifier: Apache-2.0
#include "host/request_box.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "host/test_process.h"
#include "host/users.h"

namespace verbatim::host {
namespace {

using test::in_a_child;
using test::in_a_private_network;

const Service kService{.address = {1, 2, 3}, .id = 0x0106'1234};
const Service kOther{.address = {1, 2, 3}, .id = 0x0106'1235};

int socket_to_send() { return ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0); }

TEST(RequestBox, TakesMessagesOfTheOwnerOfThePort) {
  in_a_private_network([] {
    if (!can_tell_users_apart()) ::_exit(test::kSkipped);
    const auto box = RequestBox::open(kService, ::geteuid());
    ASSERT_TRUE(box.ok());
    const int sender = socket_to_send();
    const std::array<std::byte, 3> message{std::byte{7}, std::byte{8}, std::byte{9}};
    std::array<std::byte, 16> taken{};
    EXPECT_EQ(box->take(taken), 0U);
    EXPECT_TRUE(RequestBox::hand_over(sender, kService, message));
    EXPECT_EQ(box->take(taken), 3U);
    EXPECT_EQ(taken[2], std::byte{9});
    EXPECT_FALSE(RequestBox::hand_over(sender, kOther, message)) << "no process has it";
    ::close(sender);
  });
}

TEST(RequestBox, AServiceHasOneBox) {
  in_a_private_network([] {
    if (!can_tell_users_apart()) ::_exit(test::kSkipped);
    const auto box = RequestBox::open(kService, 1);
    ASSERT_TRUE(box.ok());
    EXPECT_EQ(RequestBox::open(kService, 1).error(), Errc::kAddressInUse);
    EXPECT_TRUE(RequestBox::open(kOther, 1).ok());
  });
}

TEST(RequestBox, DiscardsMessagesOfOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  in_a_private_network([] {
    const auto box = RequestBox::open(kService, 61001);
    ASSERT_TRUE(box.ok());
    const auto send_as = [](uid_t user) {
      EXPECT_EQ(in_a_child([user] {
                  ASSERT_EQ(::setresuid(user, user, user), 0);
                  const std::array<std::byte, 1> message{static_cast<std::byte>(user)};
                  EXPECT_TRUE(RequestBox::hand_over(socket_to_send(), kService, message));
                }),
                0);
    };
    send_as(61002);
    send_as(0);
    send_as(61001);
    std::array<std::byte, 16> taken{};
    EXPECT_EQ(box->take(taken), 1U);
    EXPECT_EQ(taken[0], static_cast<std::byte>(61001 & 0xff));
    EXPECT_EQ(box->take(taken), 0U);
  });
}

}  // namespace
}  // namespace verbatim::host
