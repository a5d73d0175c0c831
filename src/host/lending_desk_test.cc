// SPDX-License-Identifier: Apache-2.0
#include "host/lending_desk.h"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "host/public_name.h"
#include "host/test_process.h"

namespace verbatim::host {
namespace {

/// The only desk of the network namespace.
std::string name_of_desk() {
  std::FILE* list = std::fopen("/proc/thread-self/net/unix", "re");
  char line[512];
  std::string name;
  while (std::fgets(line, sizeof line, list) != nullptr) {
    const std::string text(line);
    const auto at = text.find("@verbatim/port/");
    if (at != std::string::npos) name = text.substr(at + 1, text.size() - at - 2);
  }
  std::fclose(list);
  return name;
}

int ask(const std::string& desk) {
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  EXPECT_EQ(PublicName(desk).connect(socket), 0);
  std::array<std::byte, LendingMessage::kOctets> question{};
  LendingMessage{}.emit(question);
  EXPECT_EQ(::send(socket, question.data(), question.size(), 0),
            static_cast<ssize_t>(question.size()));
  return socket;
}

bool has_answer(int socket) {
  pollfd readable{.fd = socket, .events = POLLIN, .revents = 0};
  return ::poll(&readable, 1, 0) == 1;
}

/// Reads an answer without its descriptors, which are closed.
void read_answer(int socket) {
  char octets[8];
  EXPECT_GT(::recv(socket, octets, sizeof octets, MSG_DONTWAIT), 0);
}

/// A desk that lends its standard output, and counts how often.
struct Lending {
  LendingDesk desk;
  std::string name;
  int lent = 0;

  Lending() {
    EXPECT_TRUE(desk.open([this](const LendingMessage&, uid_t) {
      ++lent;
      return LendingDesk::Answer{.kind = LendingDesk::Answer::Kind::kLent,
                                 .descriptors = {STDOUT_FILENO}};
    }));
    name = name_of_desk();
  }
};

TEST(LendingDesk, AUserThatReadsNoAnswerGetsNoSecondOne) {
  test::in_a_private_network([] {
    Lending lending;
    const int first = ask(lending.name);
    (void)lending.desk.serve();
    std::vector<int> others;
    for (int i = 0; i < 20; ++i) {
      others.push_back(ask(lending.name));
      (void)lending.desk.serve();
    }
    EXPECT_EQ(lending.lent, 1);
    EXPECT_TRUE(has_answer(first));
    read_answer(first);
    (void)lending.desk.serve();
    EXPECT_EQ(lending.lent, 2) << "one that waits is answered now";
    for (const int socket : others) ::close(socket);
    ::close(first);
  });
}

TEST(LendingDesk, AnAnswerThatIsNotReadIsForgottenWithItsReader) {
  test::in_a_private_network([] {
    Lending lending;
    ::close(ask(lending.name));
    (void)lending.desk.serve();
    const int second = ask(lending.name);
    (void)lending.desk.serve();
    EXPECT_TRUE(has_answer(second));
    ::close(second);
  });
}

TEST(LendingDesk, AUserThatAsksOftenWaits) {
  test::in_a_private_network([] {
    Lending lending;
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    std::size_t asked = 0;
    for (; asked < 10 * LendingDesk::kQuestionsPerUser; ++asked) {
      const int socket = ask(lending.name);
      (void)lending.desk.serve();
      if (has_answer(socket)) read_answer(socket);
      ::close(socket);
    }
    const auto periods = 1 + (Clock::now() - start) / LendingDesk::kPeriod;
    EXPECT_LE(lending.lent, static_cast<int>(LendingDesk::kQuestionsPerUser) * (periods + 1));
    EXPECT_GE(lending.lent, static_cast<int>(LendingDesk::kQuestionsPerUser));
  });
}

// A lock is held meanwhile, and processes that connect again and again never leave the queue empty.
TEST(LendingDesk, ConnectionsAreAcceptedInPortions) {
  test::in_a_private_network([] {
    Lending lending;
    constexpr std::size_t kCount = 3 * LendingDesk::kConnectionsMax;
    std::vector<int> clients;
    for (std::size_t i = 0; i < kCount; ++i) {
      clients.push_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      ASSERT_EQ(PublicName(lending.name).connect(clients.back()), 0);
    }
    const auto dropped = [&] {
      return static_cast<std::size_t>(std::ranges::count_if(clients, has_answer));
    };
    std::size_t before = 0;
    for (std::size_t accepted = 0; accepted < kCount; accepted += LendingDesk::kConnectionsMax) {
      EXPECT_TRUE(lending.desk.serve());
      EXPECT_GT(dropped(), before);
      EXPECT_LE(dropped() - before, LendingDesk::kConnectionsMax);
      before = dropped();
    }
    EXPECT_EQ(before, kCount - LendingDesk::kConnectionsPerUser) << "all were looked at";
    for (const int socket : clients) ::close(socket);
  });
}

}  // namespace
}  // namespace verbatim::host
