// SPDX-License-Identifier: Apache-2.0
// The messages of processes that share a port. How the processes use the port is tested with
// udp/shared_port.h.
#include "host/socket_share.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>

#include "base/pointer.h"
#include "base/prng.h"
#include "host/opening_lock.h"
#include "host/slot.h"
#include "host/test_process.h"
#include "host/unix_name.h"

namespace verbatim::host {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);

SocketLabel label(std::uint8_t address, std::uint32_t slot) {
  SocketLabel made;
  made.address[15] = address;
  made.slot = slot;
  return made;
}

int datagram_socket() { return ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); }

/// Takes all sockets that other processes serve.
void gather(SocketShare& share) {
  share.find_peers();
  while (share.ask_next_peer()) {
    while (share.take_answers(kPatience)) {
    }
  }
}

TEST(SocketShare, ANewcomerGetsAllThatIsHeldOfItsAddresses) {
  test::in_a_private_network([] {
    SocketShare holder;
    holder.want(label(1, 0));
    holder.want(label(2, 0));
    for (std::uint32_t slot = 0; slot < 300; ++slot) {  // more than one packet carries
      if (slot < kSlotCount) holder.add(label(1, slot), datagram_socket());
      if (slot < 3) holder.add(label(2, slot), datagram_socket());
    }
    ASSERT_TRUE(holder.serve(0).ok());
    SocketShare newcomer;
    newcomer.want(label(1, 0));
    gather(newcomer);
    EXPECT_EQ(newcomer.count_beside(label(1, 0)), kSlotCount);
    EXPECT_EQ(newcomer.count_beside(label(2, 0)), 0U);
    EXPECT_GE(newcomer.find(label(1, 255)), 0);
    EXPECT_EQ(newcomer.find(label(2, 0)), -1);
  });
}

TEST(SocketShare, TheOthersGetWhatANewcomerBrings) {
  test::in_a_private_network([] {
    SocketShare holder;
    holder.want(label(1, 0));
    holder.add(label(1, 0), datagram_socket());
    ASSERT_TRUE(holder.serve(0).ok());
    {
      SocketShare newcomer;
      newcomer.want(label(1, 0));
      gather(newcomer);
      newcomer.add(label(1, 1), datagram_socket());
      ASSERT_TRUE(newcomer.serve(1).ok());
    }
    SocketShare next;
    next.want(label(1, 0));
    gather(next);
    EXPECT_EQ(next.count_beside(label(1, 0)), 2U);
  });
}

TEST(SocketShare, AProcessThatLacksASocketAsksForIt) {
  test::in_a_private_network([] {
    SocketShare left_behind;
    left_behind.want(label(1, 0));
    left_behind.add(label(1, 0), datagram_socket());
    ASSERT_TRUE(left_behind.serve(0).ok());
    SocketShare ahead;  // has two sockets that were never sent to the other one
    ahead.want(label(1, 0));
    for (const std::uint32_t slot : {0U, 1U, 2U}) ahead.add(label(1, slot), datagram_socket());
    ASSERT_TRUE(ahead.serve(1).ok());
    {
      SocketShare newcomer;
      newcomer.want(label(1, 0));
      newcomer.find_peers();
      ASSERT_TRUE(newcomer.ask_next_peer() && newcomer.ask_next_peer());
      while (newcomer.count_beside(label(1, 0)) < 3) ASSERT_TRUE(newcomer.take_answers(kPatience));
      newcomer.add(label(1, 3), datagram_socket());
      ASSERT_TRUE(newcomer.serve(3).ok());
      // Exists until the process that lacked the sockets has asked and got an answer.
      for (std::size_t held = 0; held < 4;) {
        SocketShare question;
        question.want(label(1, 0));
        question.find_peers();
        ASSERT_TRUE(question.ask_next_peer());
        ASSERT_TRUE(question.take_answers(kPatience));
        held = question.count_beside(label(1, 0));
      }
    }
  });
}

TEST(SocketShare, IgnoresProcessesOfOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  test::in_a_private_network([] {
    SocketShare holder;
    holder.want(label(1, 0));
    holder.add(label(1, 0), datagram_socket());
    ASSERT_TRUE(holder.serve(0).ok());
    const int own = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ASSERT_EQ(UnixName::of_share(0).connect(own), 0);
    sockaddr_un name{};
    socklen_t length = sizeof name;
    ASSERT_EQ(::getpeername(own, pointer_as<sockaddr>(&name), &length), 0);
    ::close(own);
    const int ended = test::in_a_child([&] {
      ASSERT_EQ(::setuid(65534), 0);
      const int stranger = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
      EXPECT_EQ(::connect(stranger, pointer_as<sockaddr>(&name), length), -1);
      EXPECT_EQ(errno, EACCES);
    });
    EXPECT_EQ(ended, 0);
  });
}

TEST(SocketShare, SurvivesNonsense) {
  test::in_a_private_network([] {
    SocketShare holder;
    holder.want(label(1, 0));
    holder.add(label(1, 0), datagram_socket());
    ASSERT_TRUE(holder.serve(0).ok());
    Prng prng(7);
    for (int i = 0; i < 500; ++i) {
      ShareMessage message;
      message.kind = prng.below(2) == 0 ? ShareMessage::Kind::kWant : ShareMessage::Kind::kHave;
      message.count = prng.below(4);
      std::array<std::byte, ShareMessage::kOctetsMax> octets{};
      const std::size_t length = message.emit(octets);
      octets[prng.below(length)] = static_cast<std::byte>(prng.below(256));
      const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
      ASSERT_EQ(UnixName::of_share(0).connect(socket), 0);
      (void)::send(socket, octets.data(), prng.below(2) == 0 ? length : prng.below(length) + 1,
                   MSG_NOSIGNAL);
      ::close(socket);
    }
    SocketShare newcomer;
    newcomer.want(label(1, 0));
    gather(newcomer);
    EXPECT_EQ(newcomer.count_beside(label(1, 0)), 1U);
  });
}

TEST(SocketShare, AnswersAgainWhenThereAreDescriptorsAgain) {
  test::in_a_private_network([] {
    SocketShare holder;
    holder.want(label(1, 0));
    holder.add(label(1, 0), datagram_socket());
    ASSERT_TRUE(holder.serve(0).ok());
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    SocketShare newcomer;
    newcomer.want(label(1, 0));
    ASSERT_EQ(newcomer.find_peers(), 1U);
    // The lowest free number is above the limit: nothing can be accepted any more.
    const int free = ::dup(0);
    ::close(free);
    const rlimit none{.rlim_cur = static_cast<rlim_t>(free), .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    SocketShare late;
    late.want(label(1, 0));
    EXPECT_EQ(late.find_peers(), 0U) << "has no descriptors either";
    (void)newcomer.ask_next_peer();
    (void)newcomer.take_answers(std::chrono::milliseconds(20));
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    gather(late);
    EXPECT_EQ(late.count_beside(label(1, 0)), 1U);
  });
}

TEST(SocketShare, LeavesNoDescriptorBehind) {
  test::in_a_private_network([] {
    const std::size_t before = test::open_descriptor_count();
    for (int i = 0; i < 20; ++i) {
      SocketShare first;
      SocketShare second;
      for (SocketShare* share : {&first, &second}) share->want(label(1, 0));
      first.add(label(1, 0), datagram_socket());
      ASSERT_TRUE(first.serve(0).ok());
      gather(second);
      second.add(label(1, 1), datagram_socket());
      ASSERT_TRUE(second.serve(1).ok());
    }
    EXPECT_EQ(test::open_descriptor_count(), before);
  });
}

TEST(ShareMessage, ComesBackAsItWasSent) {
  ShareMessage sent;
  sent.kind = ShareMessage::Kind::kHave;
  sent.more_follows = true;
  sent.count = ShareMessage::kEntriesMax;
  for (std::size_t i = 0; i < sent.count; ++i) {
    sent.entries[i] = label(static_cast<std::uint8_t>(i), static_cast<std::uint32_t>(i * 3));
    sent.entries[i].scope = 17;
  }
  std::array<std::byte, ShareMessage::kOctetsMax> octets{};
  const std::size_t length = sent.emit(octets);
  EXPECT_EQ(length, octets.size());
  ShareMessage received;
  ASSERT_TRUE(received.parse(octets).ok());
  EXPECT_EQ(received.kind, sent.kind);
  EXPECT_TRUE(received.more_follows);
  EXPECT_EQ(received.count, sent.count);
  EXPECT_TRUE(std::equal(sent.entries.begin(), sent.entries.end(), received.entries.begin()));
  for (std::size_t cut = 0; cut < length; ++cut) {
    EXPECT_FALSE(received.parse(std::span(octets).first(cut)).ok()) << cut;
  }
}

TEST(OpeningLock, IsHeldByOneAtATime) {
  test::in_a_private_network([] {
    OpeningLock::Holder holder;
    auto first = OpeningLock::take(kPatience, holder);
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(OpeningLock::take(std::chrono::milliseconds(20), holder).error(), Errc::kTimedOut);
    EXPECT_EQ(holder.pid, ::getpid());
    first->release();
    EXPECT_TRUE(OpeningLock::take(kPatience, holder).ok());
  });
}

TEST(OpeningLock, IsFreeWhenItsHolderDies) {
  test::in_a_private_network([] {
    std::array<int, 2> taken{};
    ASSERT_EQ(::pipe(taken.data()), 0);
    const pid_t child = ::fork();
    OpeningLock::Holder holder;
    if (child == 0) {
      auto lock = OpeningLock::take(kPatience, holder);
      (void)!::write(taken[1], "x", 1);
      while (true) ::pause();
    }
    char octet = 0;
    ASSERT_EQ(::read(taken[0], &octet, 1), 1);
    EXPECT_FALSE(OpeningLock::take(std::chrono::milliseconds(1), holder).ok());
    EXPECT_EQ(holder.pid, child);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    EXPECT_TRUE(OpeningLock::take(kPatience, holder).ok());
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  });
}

}  // namespace
}  // namespace verbatim::host
