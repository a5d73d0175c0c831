// SPDX-License-Identifier: Apache-2.0
#include "connect/probe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

namespace verbatim::connect {
namespace {

/// The program has closed the probe and has got its number for a socket of its own: a datagram sent
/// there would reach the program's peer.
TEST(Probe, LeavesAFileOfTheProgramAlone) {
  const int number = ::dup(STDERR_FILENO);  // the next one that is free
  ASSERT_GE(number, 0);
  ASSERT_EQ(::close(number), 0);
  std::optional<Probe> probe(std::in_place, true);
  ASSERT_EQ(::close(number), 0);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
  if (ends[0] != number) {
    ASSERT_EQ(::dup2(ends[0], number), number);
  }
  probe->knock();
  char octet;
  EXPECT_EQ(::recv(ends[1], &octet, 1, MSG_DONTWAIT), -1);
  probe.reset();
  EXPECT_NE(::fcntl(number, F_GETFD), -1);
  if (ends[0] != number) ::close(number);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace verbatim::connect
