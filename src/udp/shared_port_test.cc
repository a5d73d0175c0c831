// SPDX-License-Identifier: Apache-2.0
// Many processes on one address: which process gets which packets, also when some of them end or
// stop.
#include "udp/shared_port.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/prng.h"
#include "udp/test_member.h"

namespace verbatim::link {
namespace {

using test::in_a_private_network;
using test::ipv4;
using test::Octets;

using test::has_packet;
using test::kHome;
using test::kSecond;
using test::Member;
using test::MemberProcess;
using test::packet_for;
using test::send_to;
using test::sockets_there_are;
using test::Step;

TEST(SharedPort, TheFirstProcessHasSlotZeroAndOneSocket) {
  in_a_private_network([] {
    Member first;
    ASSERT_TRUE(first.join().ok()) << first.message;
    EXPECT_EQ(first.slot(), 0U);
    EXPECT_EQ(sockets_there_are(), 1U);
    EXPECT_TRUE(first.is_reachable());
  });
}

TEST(SharedPort, EachOfManyProcessesGetsItsOwnPackets) {
  in_a_private_network([] {
    constexpr std::size_t kCount = 12;
    std::vector<std::unique_ptr<MemberProcess>> members;
    std::vector<bool> is_taken(kCount);
    for (std::size_t i = 0; i < kCount; ++i) members.push_back(std::make_unique<MemberProcess>());
    for (auto& member : members) {
      ASSERT_LT(member->slot(), kCount);
      EXPECT_FALSE(is_taken[member->slot()]);
      is_taken[member->slot()] = true;
    }
    EXPECT_EQ(sockets_there_are(), kCount);
    for (auto& member : members) EXPECT_TRUE(member->is_reachable());
  });
}

// While a process is alone its socket has no steering program; the second one must not get in
// before there is one. Some of the rounds hit the moment.
TEST(SharedPort, NothingIsMisledWhenTheSecondProcessComes) {
  for (int round = 0; round < 10; ++round) {
    in_a_private_network([] {
      Member zero;
      ASSERT_TRUE(zero.join().ok());
      SocketAddress to{};
      const socklen_t octets = store_address(to, kHome, kRocePort, 0);
      std::array<int, 16> ports{};  // without steering, half of the packets would be lost
      for (int& port : ports) {
        port = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        ASSERT_EQ(::connect(port, &to.base, octets), 0);
      }
      std::atomic<bool> stop{false};
      std::size_t sent = 0;
      std::size_t got = 0;
      const UdpSocket& first = zero.place.receivers[0].socket;
      std::thread sender([&] {
        const Octets packet = packet_for(0);
        while (!stop) {
          const int port = ports[sent++ % ports.size()];
          (void)!::send(port, packet.data(), packet.size(), 0);
          if (has_packet(first, 0)) ++got;
        }
      });
      Member one;
      const Status joined = one.join();
      stop = true;
      sender.join();
      ASSERT_TRUE(joined.ok());
      ASSERT_EQ(one.slot(), 1U);
      while (got < sent && has_packet(first)) ++got;
      EXPECT_EQ(got, sent);
      EXPECT_TRUE(zero.is_reachable());
      EXPECT_TRUE(one.is_reachable());
    });
  }
}

TEST(SharedPort, TheEndOfAProcessMovesNoSocket) {
  in_a_private_network([] {
    std::vector<std::unique_ptr<MemberProcess>> members;
    for (std::uint32_t i = 0; i < 6; ++i) {
      members.push_back(std::make_unique<MemberProcess>());
      ASSERT_EQ(members.back()->slot(), i);
    }
    for (const std::size_t dead : {0U, 3U, 5U}) members[dead]->finish();
    EXPECT_EQ(sockets_there_are(), 6U) << "the others hold them";
    for (const std::size_t alive : {1U, 2U, 4U}) EXPECT_TRUE(members[alive]->is_reachable());
    // Packets for ended processes wait in their sockets, and processes that join later must not get
    // them.
    for (const std::uint32_t dead : {0U, 3U, 5U}) send_to(kHome, packet_for(dead));
    for (const std::uint32_t dead : {0U, 3U, 5U}) {
      Member newcomer;
      ASSERT_TRUE(newcomer.join().ok()) << newcomer.message;
      EXPECT_EQ(newcomer.slot(), dead == 0 ? 0U : newcomer.slot());
      EXPECT_FALSE(has_packet(newcomer.place.receivers[0].socket, test::kDoubtMs));
      EXPECT_TRUE(newcomer.is_reachable());
    }
    EXPECT_EQ(sockets_there_are(), 6U);
  });
}

TEST(SharedPort, ProcessesOfThisUserThatCannotBeFoundAreNamedAsTheReason) {
  std::string place = "/tmp/vbXXXXXX";
  ASSERT_NE(::mkdtemp(place.data()), nullptr);
  in_a_private_network([&] {
    ::setenv("VERBATIM_DIR", (place + "/a").c_str(), 1);  // as in another container
    auto elsewhere = std::make_optional<MemberProcess>();
    EXPECT_EQ(elsewhere->slot(), 0U);
    ::setenv("VERBATIM_DIR", (place + "/b").c_str(), 1);
    Member member;
    EXPECT_EQ(member.join().error(), Errc::kAddressInUse);
    EXPECT_NE(member.message.find("VERBATIM_DIR"), std::string::npos) << member.message;
    elsewhere.reset();
    EXPECT_TRUE(member.join().ok()) << member.message;
  });
  EXPECT_EQ(std::system(("rm -rf " + place).c_str()), 0);
}

TEST(SharedPort, NothingIsLeftWhenTheLastProcessEnds) {
  in_a_private_network([] {
    {
      MemberProcess first;
      MemberProcess second;
      ASSERT_LT(first.slot() + second.slot(), 2U);
      EXPECT_EQ(sockets_there_are(), 2U);
    }
    EXPECT_EQ(sockets_there_are(), 0U);
    const std::size_t before = test::open_descriptor_count();
    for (int i = 0; i < 20; ++i) {
      Member one;
      Member other;
      ASSERT_TRUE(one.join().ok() && other.join().ok());
    }
    EXPECT_EQ(test::open_descriptor_count(), before);
    EXPECT_EQ(sockets_there_are(), 0U);
  });
}

TEST(SharedPort, EveryAddressHasTheSameOrder) {
  in_a_private_network([] {
    const std::vector<LocalAddress> home = {{.gid = kHome}};
    const std::vector<LocalAddress> second = {{.gid = kSecond}};
    MemberProcess zero(home);
    ASSERT_EQ(zero.slot(), 0U);
    MemberProcess one(second);  // fills the place below its own
    ASSERT_EQ(one.slot(), 1U);
    MemberProcess two({home[0], second[0]});
    ASSERT_EQ(two.slot(), 2U);
    MemberProcess three({second[0], home[0], {.gid = test::ipv6_loopback()}});
    ASSERT_EQ(three.slot(), 3U);
    for (MemberProcess* member : {&zero, &one, &two}) EXPECT_TRUE(member->is_reachable());
    zero.finish();
    MemberProcess again({home[0], second[0]});
    EXPECT_EQ(again.slot(), 0U) << "the place that was filled at the second address is taken";
    for (MemberProcess* member : {&one, &two, &again}) EXPECT_TRUE(member->is_reachable());
  });
}

TEST(SharedPort, AProcessMayJoinSeveralTimes) {
  in_a_private_network([] {
    Member on_one_device;
    Member on_another;
    on_another.addresses = {{.gid = kSecond}};
    ASSERT_TRUE(on_one_device.join().ok() && on_another.join().ok());
    EXPECT_EQ(on_one_device.slot(), 0U);
    EXPECT_EQ(on_another.slot(), 1U);
    EXPECT_TRUE(on_one_device.is_reachable());
    EXPECT_TRUE(on_another.is_reachable());
  });
}

TEST(SharedPort, ANewcomerLeavesTheRoutesOfOthersAlone) {
  in_a_private_network([] {
    Member zero;
    Member one;
    ASSERT_TRUE(zero.join().ok() && one.join().ok());
    const std::array<ServiceRoute, 1> routes = {{{.service = 0x0106'1234, .slot = 1}}};
    ASSERT_TRUE(one.place.receivers[0].socket.steer(routes));
    Octets request(280, std::byte{0});
    request[7] = std::byte{1};      // to the management queue pair
    request[21] = std::byte{7};     // the connection manager's
    request[37] = std::byte{0x10};  // REQ
    request[56] = std::byte{0x01};
    request[57] = std::byte{0x06};
    request[58] = std::byte{0x12};
    request[59] = std::byte{0x34};
    MemberProcess two;
    ASSERT_EQ(two.slot(), 2U);
    two.finish();
    MemberProcess again;  // takes over
    ASSERT_EQ(again.slot(), 2U);
    send_to(kHome, request);
    EXPECT_TRUE(has_packet(one.place.receivers[0].socket));
  });
}

TEST(SharedPort, ANewProcessGetsInWhileAllOthersAreStopped) {
  in_a_private_network([] {
    MemberProcess zero;
    MemberProcess one;
    ASSERT_LT(zero.slot() + one.slot(), 2U);
    MemberProcess two;
    ASSERT_EQ(two.slot(), 2U);
    two.finish();  // only processes that are going to be stopped hold its socket
    for (MemberProcess* member : {&zero, &one}) member->signal(SIGSTOP);
    for (MemberProcess* member : {&zero, &one}) member->wait_until_stopped();
    Member newcomer;
    newcomer.options.answer_patience = std::chrono::milliseconds(50);
    ASSERT_TRUE(newcomer.join().ok()) << newcomer.message;
    EXPECT_EQ(newcomer.slot(), 3U) << "slot 2 is free, but its socket is out of reach";
    EXPECT_TRUE(newcomer.is_reachable());
    for (MemberProcess* member : {&zero, &one}) member->signal(SIGCONT);
    EXPECT_TRUE(zero.is_reachable());
    EXPECT_TRUE(one.is_reachable());
    // Each process holds the sockets of the others, so their end moves no socket.
    zero.finish();
    Member taker;
    ASSERT_TRUE(taker.join().ok()) << taker.message;
    EXPECT_LT(taker.slot(), 3U);
    EXPECT_TRUE(taker.is_reachable());
    EXPECT_TRUE(newcomer.is_reachable());
  });
}

TEST(SharedPort, AProcessThatWasStoppedCatchesUp) {
  in_a_private_network([] {
    auto zero = std::make_unique<MemberProcess>();
    ASSERT_EQ(zero->slot(), 0U);
    zero->signal(SIGSTOP);
    zero->wait_until_stopped();
    std::vector<std::unique_ptr<Member>> newcomers;
    for (std::uint32_t i = 1; i <= 20; ++i) {  // more than a queue of datagrams holds
      auto& newcomer = *newcomers.emplace_back(std::make_unique<Member>());
      newcomer.options.answer_patience = std::chrono::milliseconds(20);
      ASSERT_TRUE(newcomer.join().ok()) << newcomer.message;
      ASSERT_EQ(newcomer.slot(), i);
    }
    zero->signal(SIGCONT);
    EXPECT_TRUE(zero->is_reachable());
    host::SocketShare question;
    host::SocketLabel home{};
    home.address = kHome.octets;
    question.want(home);
    for (int tries = 0; tries < 1000 && question.count_beside(home) < 21; ++tries) {
      question.start_over();
      ASSERT_GT(question.find_peers(), 0U);
      ASSERT_TRUE(question.ask_next_peer()) << "slot 0, the one that was stopped";
      question.take_answers(std::chrono::seconds(30));
    }
    ASSERT_EQ(question.count_beside(home), 21U);
    question.close();
    newcomers.clear();
    EXPECT_EQ(sockets_there_are(), 21U) << "it holds them all";
    Member last;
    ASSERT_TRUE(last.join().ok());
    EXPECT_EQ(last.slot(), 1U);
    EXPECT_TRUE(last.is_reachable());
    EXPECT_TRUE(zero->is_reachable());
  });
}

/// Ends or stops the process at a step; a plain function cannot capture.
template <Step kStep, int kSignal>
void at(Step step) {
  if (step == kStep) ::raise(kSignal);
}

TEST(SharedPort, DeathAtAnyStepLeavesTheSlotToTheNext) {
  in_a_private_network([] {
    const std::array<void (*)(Step), 5> deaths = {
        at<Step::kLocked, SIGKILL>, at<Step::kAsked, SIGKILL>, at<Step::kClaimed, SIGKILL>,
        at<Step::kBound, SIGKILL>, at<Step::kListening, SIGKILL>};
    const std::vector<LocalAddress> both = {{.gid = kHome}, {.gid = kSecond}};
    for (std::size_t i = 0; i < deaths.size(); ++i) {
      SCOPED_TRACE(i);
      MemberProcess zero;
      ASSERT_EQ(zero.slot(), 0U);
      {
        MemberProcess first_try(both, deaths[i]);  // into a new slot
        first_try.join();
      }
      MemberProcess one(both);
      EXPECT_EQ(one.slot(), 1U);
      MemberProcess two(both);
      EXPECT_EQ(two.slot(), 2U);
      one.finish();
      if (i != 3) {  // a process that takes over a slot binds no socket
        MemberProcess second_try(both, deaths[i]);  // into the dead one's
        second_try.join();
      }
      MemberProcess again(both);
      EXPECT_EQ(again.slot(), 1U);
      for (MemberProcess* member : {&zero, &two, &again}) EXPECT_TRUE(member->is_reachable());
    }
    EXPECT_EQ(sockets_there_are(), 0U);
  });
}

TEST(SharedPort, DeathAtAnyMomentLeavesTheSlotToTheNext) {
  in_a_private_network([] {
    Prng prng(4791);
    MemberProcess zero;
    MemberProcess one;
    ASSERT_LT(zero.slot() + one.slot(), 2U);
    const int deaths = std::getenv("VERBATIM_STRESS") != nullptr ? 5000 : 100;
    for (int i = 0; i < deaths; ++i) {
      MemberProcess victim;
      timespec moment{.tv_sec = 0, .tv_nsec = static_cast<long>(prng.below(4'000'000))};
      ::nanosleep(&moment, nullptr);
    }
    Member newcomer;
    ASSERT_TRUE(newcomer.join().ok()) << newcomer.message;
    EXPECT_TRUE(newcomer.is_reachable());
    EXPECT_TRUE(zero.is_reachable());
    EXPECT_TRUE(one.is_reachable());
    EXPECT_LE(newcomer.slot(), 2U);
  });
}

TEST(SharedPort, AStoppedNewcomerIsWaitedForAndThenNamed) {
  in_a_private_network([] {
    MemberProcess stopped({{.gid = kHome}}, at<Step::kClaimed, SIGSTOP>);
    stopped.wait_until_stopped();
    Member newcomer;
    newcomer.options.lock_patience = std::chrono::milliseconds(100);
    EXPECT_EQ(newcomer.join().error(), Errc::kTimedOut);
    EXPECT_NE(newcomer.message.find("kill -CONT"), std::string::npos) << newcomer.message;
    stopped.signal(SIGCONT);
    newcomer.options.lock_patience = std::chrono::seconds(30);
    ASSERT_TRUE(newcomer.join().ok()) << newcomer.message;
    EXPECT_EQ(stopped.slot(), 0U);
    EXPECT_EQ(newcomer.slot(), 1U);
  });
}

TEST(SharedPort, ASocketThatNoProcessKnowsDoesNotMatter) {
  in_a_private_network([] {
    auto unknown = UdpSocket::open_receiver({.gid = kHome}, kRocePort);
    ASSERT_TRUE(unknown.ok());
    Member newcomer;
    ASSERT_TRUE(newcomer.join().ok()) << newcomer.message;
    EXPECT_EQ(newcomer.slot(), 1U);
    EXPECT_TRUE(newcomer.is_reachable());
  });
}

TEST(SharedPort, AnotherUserIsToldWhoHoldsThePortAndLendsNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  in_a_private_network([] {
    Member holder;
    holder.options.lends = false;
    ASSERT_TRUE(holder.join().ok());
    const int ended = test::in_a_child([] {
      ASSERT_EQ(::setuid(65534), 0);
      Member stranger;
      EXPECT_EQ(stranger.join().error(), Errc::kAddressInUse);
      EXPECT_NE(stranger.message.find("held by user root (uid 0)"), std::string::npos)
          << stranger.message;
      EXPECT_NE(stranger.message.find("127.0.0.1"), std::string::npos) << stranger.message;
      Member elsewhere;
      elsewhere.addresses = {{.gid = kSecond}};
      EXPECT_TRUE(elsewhere.join().ok()) << elsewhere.message;
    });
    EXPECT_EQ(ended, 0);
    EXPECT_TRUE(holder.is_reachable());
  });
}

TEST(SharedPort, WorksForAnOrdinaryUserWithFewDescriptors) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  in_a_private_network([] {
    const rlimit limit{.rlim_cur = 1024, .rlim_max = 1024};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    ASSERT_EQ(::setuid(65534), 0);
    std::vector<LocalAddress> addresses;
    for (std::uint8_t i = 1; i <= 3; ++i) addresses.push_back({.gid = ipv4(127, 0, 1, i)});
    std::vector<std::unique_ptr<MemberProcess>> members;
    for (std::uint32_t i = 0; i < 64; ++i) {
      members.push_back(std::make_unique<MemberProcess>(addresses));
    }
    std::vector<bool> is_taken(64);
    for (auto& member : members) {
      ASSERT_LT(member->slot(), 64U);
      is_taken[member->slot()] = true;
    }
    EXPECT_EQ(std::count(is_taken.begin(), is_taken.end(), true), 64);
    for (auto& member : members) EXPECT_TRUE(member->is_reachable());
  });
}

TEST(SharedPort, KeepsOutOfTheWayOfDescriptorsThatSelectCanName) {
  in_a_private_network([] {
    const rlimit limit{.rlim_cur = 1024, .rlim_max = 1024};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    const std::vector<LocalAddress> addresses = {{.gid = kHome}, {.gid = kSecond}};
    std::vector<std::unique_ptr<MemberProcess>> others;
    for (int i = 0; i < 16; ++i) {
      others.push_back(std::make_unique<MemberProcess>(addresses));
      ASSERT_LT(others.back()->slot(), 16U);
    }
    const auto count_low = [] {  // below half of what we may have
      int count = 0;
      for (int number = 0; number < 512; ++number) count += ::fcntl(number, F_GETFD) >= 0 ? 1 : 0;
      return count;
    };
    const int before = count_low();
    Member member;
    member.addresses = addresses;
    ASSERT_TRUE(member.join().ok());
    ASSERT_EQ(member.slot(), 16U);
    // It holds 34 sockets, those of all slots at both addresses, out of the way. Five others stay
    // low, and for a while those that pass by: about one connection per slot.
    EXPECT_LT(count_low() - before, 32);
  });
}

TEST(SharedPort, AChildGivesUpEverything) {
  in_a_private_network([] {
    Member parent;
    ASSERT_TRUE(parent.join().ok());
    const int ended = test::in_a_child([&] {
      parent.port.abandon_in_child();
      parent.place = {};
      Member child;
      ASSERT_TRUE(child.join().ok()) << child.message;
      EXPECT_EQ(child.slot(), 1U);
      EXPECT_TRUE(child.is_reachable());
    });
    EXPECT_EQ(ended, 0);
    EXPECT_TRUE(parent.is_reachable());
  });
}

}  // namespace
}  // namespace verbatim::link
