// SPDX-License-Identifier: Apache-2.0
// Several users on one address: each gets its own packets, also when processes of other users end
// or stop.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "host/lending_desk.h"
#include "host/public_name.h"
#include "udp/lent_socket.h"
#include "udp/test_users.h"

namespace verbatim::link {
namespace {

using test::in_a_child;
using test::kHome;
using test::Member;
using test::sockets_there_are;

using test::as_root_in_a_private_network;
using test::Bystander;
using test::expect_reachable;
using test::kBorrower;
using test::kOwner;
using test::kThird;
using test::start;
using test::UserProcess;
using test::Users;
constexpr std::size_t kBlock = PortLender::kBlockSlots;

TEST(SharedPortUsers, EachGetsItsOwnPackets) {
  as_root_in_a_private_network([] {
    Users users;
    start(users, kOwner);
    start(users, kBorrower);
    start(users, kOwner);
    start(users, kBorrower, 2);
    expect_reachable(users);
    EXPECT_NE(users[0]->slot(), users[1]->slot());
  });
}

TEST(SharedPortUsers, RootIsAUserLikeOthers) {
  as_root_in_a_private_network([] {
    Users users;
    start(users, 0);
    start(users, kBorrower);
    expect_reachable(users);
  });
  as_root_in_a_private_network([] {
    Users users;
    start(users, kOwner);
    start(users, 0);
    expect_reachable(users);
  });
}

TEST(SharedPortUsers, TheOwnerMayEnd) {
  as_root_in_a_private_network([] {
    Users owners;
    Users borrowers;
    start(owners, kOwner, 3);
    start(borrowers, kBorrower, 2);
    start(owners, kOwner, 2);  // behind what was lent
    for (const std::size_t dead : {1U, 4U, 0U, 3U, 2U}) {
      owners[dead]->finish();
      expect_reachable(borrowers);
    }
    start(borrowers, kBorrower, 2);
    expect_reachable(borrowers);
  });
}

// The last sockets of the port move into the places of those that are closed: the spares.
TEST(SharedPortUsers, TheOwnerMayEndWhileEveryLentSlotIsUsed) {
  as_root_in_a_private_network([] {
    Users owners;
    Users borrowers;
    start(owners, kOwner, 2);
    start(borrowers, kBorrower, kBlock);
    owners.clear();
    expect_reachable(borrowers);
  });
}

TEST(SharedPortUsers, TheOwnerMayComeBack) {
  as_root_in_a_private_network([] {
    Users users;
    start(users, kBorrower);  // of the port at no address yet
    users.clear();
    Users owners;
    start(owners, kOwner);
    start(users, kBorrower);
    owners.clear();
    start(users, kOwner);
    start(users, kBorrower);
    expect_reachable(users);
  });
}

TEST(SharedPortUsers, TheOwnerMayBeStopped) {
  as_root_in_a_private_network([] {
    Users owners;
    Users borrowers;
    start(owners, kOwner, 2);
    start(borrowers, kBorrower);
    for (auto& owner : owners) {
      owner->signal(SIGSTOP);
      owner->wait_until_stopped();
    }
    expect_reachable(borrowers);
    start(borrowers, kBorrower);
    expect_reachable(borrowers);
    for (auto& owner : owners) owner->signal(SIGCONT);
    expect_reachable(owners);
  });
}

TEST(SharedPortUsers, OneProcessOfTheOwnerThatRunsIsEnough) {
  as_root_in_a_private_network([] {
    Users owners;
    start(owners, kOwner, 3);
    for (const std::size_t stopped : {0U, 2U}) {
      owners[stopped]->signal(SIGSTOP);
      owners[stopped]->wait_until_stopped();
    }
    Users borrowers;
    start(borrowers, kBorrower);
    expect_reachable(borrowers);
    EXPECT_TRUE(owners[1]->is_reachable());
    for (auto& owner : owners) owner->signal(SIGCONT);
  });
}

TEST(SharedPortUsers, TheBorrowerMayEndAndGetsTheSameSocketsAgain) {
  as_root_in_a_private_network([] {
    Users owners;
    Users borrowers;
    start(owners, kOwner);
    start(borrowers, kBorrower);
    const std::uint32_t slot = borrowers[0]->slot();
    const std::size_t sockets = sockets_there_are();
    EXPECT_EQ(sockets, 1 + kBlock + 1);
    borrowers.clear();
    start(owners, kOwner);
    expect_reachable(owners);
    start(borrowers, kBorrower);
    EXPECT_EQ(borrowers[0]->slot(), slot);
    EXPECT_EQ(sockets_there_are(), sockets + 1);
    expect_reachable(owners);
    expect_reachable(borrowers);
  });
}

TEST(SharedPortUsers, OfThreeUsersTheLastOneStays) {
  as_root_in_a_private_network([] {
    Users first;
    Users second;
    Users third;
    start(first, kOwner, 2);
    start(second, kBorrower, 2);
    start(third, kThird, 2);
    expect_reachable(first);
    first.clear();
    expect_reachable(second);
    expect_reachable(third);
    second.clear();
    expect_reachable(third);
  });
}

TEST(SharedPortUsers, AUserWithManyProcessesGetsMore) {
  as_root_in_a_private_network([] {
    Users users;
    start(users, kOwner);
    start(users, kBorrower, kBlock + 2);
    expect_reachable(users);
    users.front()->finish();
    users.erase(users.begin());
    expect_reachable(users);
  });
}

TEST(SharedPortUsers, AtSeveralAddresses) {
  as_root_in_a_private_network([] {
    const std::vector<LocalAddress> both = {{.gid = kHome}, {.gid = test::kSecond}};
    UserProcess owner(kOwner, both);
    ASSERT_EQ(owner.slot(), 0U);
    UserProcess borrower(kBorrower, both);
    ASSERT_LT(borrower.slot(), 256U);
    EXPECT_TRUE(borrower.is_reachable());
    EXPECT_TRUE(owner.is_reachable());
  });
}

TEST(SharedPortUsers, EachIsFirstAtAnAddress) {
  as_root_in_a_private_network([] {
    const LocalAddress home{.gid = kHome};
    const LocalAddress second{.gid = test::kSecond};
    UserProcess here(kOwner, {home});
    UserProcess there(kBorrower, {second});
    ASSERT_EQ(here.slot(), 0U);
    ASSERT_EQ(there.slot(), 0U);
    UserProcess both(kBorrower, {second, home});
    ASSERT_LT(both.slot(), 256U);
    EXPECT_TRUE(both.is_reachable());
    EXPECT_TRUE(here.is_reachable());
    EXPECT_TRUE(there.is_reachable());
  });
}

/// Asks the owner as a borrower does that has `held` slots; returns how many sockets it got.
std::size_t ask_for(std::uint32_t held) {
  const host::SocketLabel label{.address = kHome.octets, .scope = 0, .slot = 0};
  const auto lent = host::borrow({.question = {.address = label, .held = held},
                                  .owner = kOwner,
                                  .between = std::chrono::milliseconds(100),
                                  .patience = std::chrono::seconds(5)});
  for (const int descriptor : lent) ::close(descriptor);
  return lent.size();
}

TEST(SharedPortUsers, NoUserGetsMoreThanItsShare) {
  as_root_in_a_private_network([] {
    UserProcess owner(kOwner);
    ASSERT_EQ(owner.slot(), 0U);
    const int ended = in_a_child([] {
      ASSERT_EQ(::setresuid(kBorrower, kBorrower, kBorrower), 0);
      for (std::uint32_t held = 0; held < PortLender::kSlotsPerUser; held += kBlock) {
        EXPECT_GE(ask_for(held), held + kBlock);
      }
      EXPECT_EQ(ask_for(PortLender::kSlotsPerUser), 0U);
      EXPECT_EQ(ask_for(1000), 0U);
    });
    EXPECT_EQ(ended, 0);
    for (uid_t stranger = kThird; stranger < kThird + 10; ++stranger) {
      (void)in_a_child([&] {
        ASSERT_EQ(::setresuid(stranger, stranger, stranger), 0);
        (void)ask_for(0);
      });
    }
    EXPECT_LE(sockets_there_are(), 1 + PortLender::kLentMax);
    EXPECT_TRUE(owner.is_reachable());
  });
}

TEST(SharedPortUsers, AUserThatTakesAllItCanLeavesABlockForAnother) {
  as_root_in_a_private_network([] {
    Users users;
    start(users, kOwner, 2);
    (void)in_a_child([] {
      ASSERT_EQ(::setresuid(kBorrower, kBorrower, kBorrower), 0);
      for (int i = 0; i < 8; ++i) (void)ask_for(1000);
    });
    start(users, kThird);
    expect_reachable(users);
  });
}

TEST(SharedPortUsers, ConnectionsThatAskNothingKeepNoUserOut) {
  as_root_in_a_private_network([] {
    Users users;
    start(users, kOwner);
    std::FILE* list = std::fopen("/proc/thread-self/net/unix", "re");
    char line[512];
    std::string desk;
    while (std::fgets(line, sizeof line, list) != nullptr) {
      const std::string text(line);
      const auto at = text.find("@verbatim/port/");
      if (at != std::string::npos) desk = text.substr(at + 1, text.size() - at - 2);
    }
    std::fclose(list);
    ASSERT_FALSE(desk.empty());
    std::vector<int> idle;
    for (int i = 0; i < 100; ++i) {
      idle.push_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
      EXPECT_EQ(host::PublicName(desk).connect(idle.back()), 0);
    }
    start(users, kBorrower);
    expect_reachable(users);
    for (const int socket : idle) ::close(socket);
  });
}

TEST(SharedPortUsers, AFalseDeskOfAnotherUserIsNotAsked) {
  as_root_in_a_private_network([] {
    Bystander liar(kThird, [](auto ready) {
      for (int i = 0; i < 300; ++i) {
        const int desk = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
        const std::string name = "verbatim/port/" + std::to_string(i);
        if (host::PublicName(name).bind(desk) != 0 || ::listen(desk, 10) != 0) return;
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

TEST(SharedPortUsers, SocketsThatAreNotWhatWasAskedForAreNotTaken) {
  as_root_in_a_private_network([] {
    Bystander liar(kOwner, [](auto ready) {
      auto port = UdpSocket::open_receiver({.gid = kHome}, kRocePort);
      auto elsewhere =
          open_lent({.gid = kHome}, 4792, {.use = LentNote::Use::kSlot, .slot = 1, .borrower = 1});
      const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      host::LendingDesk desk;
      const auto lend = [&](const host::LendingMessage&, uid_t) {
        return host::LendingDesk::Answer{
            .kind = host::LendingDesk::Answer::Kind::kLent,
            .descriptors = {port->descriptor(), elsewhere->descriptor(), file}};
      };
      if (!port || !elsewhere || !desk.open(lend)) return;
      ready();
      for (;;) {
        (void)::poll(nullptr, 0, 5);
        (void)desk.serve();
      }
    });
    const int ended = in_a_child([] {
      ASSERT_EQ(::setresuid(kBorrower, kBorrower, kBorrower), 0);
      const std::size_t descriptors = host::test::open_descriptor_count();
      Member borrower;
      EXPECT_EQ(borrower.join().error(), Errc::kAddressInUse);
      EXPECT_EQ(host::test::open_descriptor_count(), descriptors);
    });
    EXPECT_EQ(ended, 0);
  });
}

/// Borrows as the user that runs it, and forbids other sockets at the port through each that it
/// got.
bool borrow_and_forbid_sharing() {
  const host::SocketLabel label{.address = kHome.octets, .scope = 0, .slot = 0};
  const auto lent = host::borrow({.question = {.address = label, .held = 0},
                                  .owner = kOwner,
                                  .between = std::chrono::milliseconds(100),
                                  .patience = std::chrono::seconds(5)});
  const int off = 0;
  return !lent.empty() && std::ranges::all_of(lent, [&](int socket) {
    return ::setsockopt(socket, SOL_SOCKET, SO_REUSEPORT, &off, sizeof off) == 0;
  });
}

/// A process that has done so, and stays.
Bystander start_forbidding_borrower() {
  return Bystander(kBorrower, [](auto ready) {
    if (!borrow_and_forbid_sharing()) return;
    ready();
    ::pause();
  });
}

TEST(SharedPortUsers, ABorrowerCannotMakeTheOwnerUseALentSocket) {
  as_root_in_a_private_network([] {
    Users owners;
    start(owners, kOwner);
    const Bystander borrower = start_forbidding_borrower();
    start(owners, kOwner);
    EXPECT_EQ(owners[1]->slot(), 1 + kBlock + 1);  // behind the block and its spare
    expect_reachable(owners);
  });
}

TEST(SharedPortUsers, ABorrowerThatForbidsSharingKeepsNoOtherUserOut) {
  as_root_in_a_private_network([] {
    Users users;
    start(users, kOwner);
    const Bystander borrower = start_forbidding_borrower();
    start(users, kThird);
    expect_reachable(users);
  });
}

TEST(SharedPortUsers, AnOwnerThatComesBackDoesNotBorrowItsOwnPort) {
  as_root_in_a_private_network([] {
    Users owners;
    start(owners, kOwner);
    const Bystander borrower = start_forbidding_borrower();
    owners.clear();
    const int ended = in_a_child([] {
      ASSERT_EQ(::setresuid(kOwner, kOwner, kOwner), 0);
      Member owner;
      EXPECT_EQ(owner.join().error(), Errc::kAddressInUse);
      EXPECT_NE(owner.message.find("lent to another user"), std::string::npos) << owner.message;
    });
    EXPECT_EQ(ended, 0);
  });
}

}  // namespace
}  // namespace verbatim::link
