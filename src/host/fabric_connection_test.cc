// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <vector>

namespace verbatim::host {
namespace {

/// A program that reads only what the test takes.
struct Program {
  explicit Program(OctetBudget& budget) : Program(budget, ends()) {}
  Program(OctetBudget& budget, std::array<int, 2> pair)
      : connection(Descriptor(pair[0]), 0, budget), socket(pair[1]) {}
  static std::array<int, 2> ends() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()), 0);
    return pair;
  }
  bool send(std::size_t octets) {
    return connection.send(UserMadHeader{}, std::vector<std::byte>(octets));
  }
  /// Takes all that is in the socket; the number of messages.
  int take() {
    std::vector<std::byte> room(kInlineOctetsMax);
    bool is_gone = false;
    int count = 0;
    while (receive_message(socket.number(), room, is_gone)) ++count;
    return count;
  }
  FabricConnection connection;
  Descriptor socket;
};

constexpr std::size_t kSome = 10'000;

TEST(FabricConnection, WhatIsNotReadIsKeptUpToALimitThatAllShare) {
  OctetBudget budget(std::size_t{1} << 20);
  Program silent(budget);
  std::size_t sent = 0;
  while (silent.send(kSome)) sent += kSome;
  EXPECT_GT(sent, FabricConnection::kOwnOctets + budget.held() - kSome);
  EXPECT_LT(sent, 4 * FabricConnection::kOwnOctets);  // the socket keeps some, too
  Program other(budget);
  for (std::size_t octets = 0; octets < FabricConnection::kOwnOctets; octets += kSome) {
    ASSERT_TRUE(other.send(kSome)) << "each program has some room of its own";
  }
  int taken = 0;
  while (const int more = silent.take()) {
    taken += more;
    silent.connection.flush();
  }
  EXPECT_EQ(taken, static_cast<int>(sent / kSome));
  EXPECT_EQ(budget.held(), 0);
}

TEST(FabricConnection, MemoryFilesThatAreNotTakenCountAsWell) {
  constexpr std::size_t kLong = 600'000;
  OctetBudget budget(std::size_t{1} << 20);
  Program program(budget);
  EXPECT_TRUE(program.send(kLong));
  EXPECT_FALSE(program.send(kLong));
  EXPECT_TRUE(program.send(256));
  EXPECT_EQ(program.take(), 2);
  EXPECT_TRUE(program.send(kLong));
}

TEST(FabricConnection, WhatItHasHeldIsFreeWhenItEnds) {
  OctetBudget budget(std::size_t{1} << 20);
  {
    Program program(budget);
    while (program.send(kSome)) continue;
    EXPECT_GT(budget.held(), 0);
  }
  EXPECT_EQ(budget.held(), 0);
}

}  // namespace
}  // namespace verbatim::host
