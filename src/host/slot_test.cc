// SPDX-License-Identifier: Apache-2.0
#include "host/slot.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/pointer.h"
#include "host/test_process.h"

namespace verbatim::host {
namespace {

std::vector<std::byte> octets(std::string_view text) {
  std::vector<std::byte> result(text.size());
  std::memcpy(result.data(), text.data(), text.size());
  return result;
}

std::string taken(const Slot& slot, std::size_t room = 128) {
  std::vector<std::byte> into(room);
  const std::size_t count = slot.take_forwarded(into);
  return {reinterpret_cast<const char*>(into.data()), count};
}

/// The name was removed by mistake; the process that has the slot still runs.
TEST(Slot, IsTakenAsLongAsAProcessHandsOutItsSockets) {
  test::in_a_private_network([] {
    const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ASSERT_EQ(UnixName::of_share(0).bind(listener), 0);
    ASSERT_EQ(::listen(listener, 1), 0);
    EXPECT_EQ(Slot::claim(0).error(), Errc::kBusy);
    auto slot = Slot::claim();
    ASSERT_TRUE(slot.ok());
    EXPECT_EQ(slot->number(), 1U);
    EXPECT_FALSE(UnixName::of_slot(0).is_held_beside(listener)) << "nothing is left behind";
    ::close(listener);
    EXPECT_EQ(Slot::claim()->number(), 0U);
  });
}

TEST(Slot, IsTheLowestThatIsFree) {
  test::in_a_private_network([] {
    auto zero = Slot::claim();
    auto one = Slot::claim();
    auto two = Slot::claim();
    ASSERT_TRUE(zero && one && two);
    EXPECT_EQ(zero->number(), 0U);
    EXPECT_EQ(one->number(), 1U);
    EXPECT_EQ(two->number(), 2U);
    { const Slot released = std::move(*one); }
    auto again = Slot::claim();
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->number(), 1U);
  });
}

TEST(Slot, ThereAreNoMoreThanTheNumbersCanCarry) {
  test::in_a_private_network([] {
    std::vector<Slot> slots;
    for (std::uint32_t i = 0; i < kSlotCount; ++i) {
      auto slot = Slot::claim();
      ASSERT_TRUE(slot.ok());
      ASSERT_EQ(slot->number(), i);
      slots.push_back(std::move(*slot));
    }
    auto refused = Slot::claim();
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error(), Errc::kNoMemory);
    EXPECT_TRUE(slots.front().forward(kSlotCount - 1, octets("last")));
    EXPECT_EQ(taken(slots.back()), "last");
  });
}

TEST(Slot, IsFreeAgainWhenItsOwnerIsKilled) {
  test::in_a_private_network([] {
    std::array<int, 2> ready{};
    ASSERT_EQ(::pipe(ready.data()), 0);
    const pid_t owner = ::fork();
    if (owner == 0) {
      auto slot = Slot::claim();
      const char number = slot.ok() ? static_cast<char>(slot->number()) : 'x';
      if (::write(ready[1], &number, 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    char number = 'y';
    ASSERT_EQ(::read(ready[0], &number, 1), 1);
    EXPECT_EQ(number, 0);
    {
      auto mine = Slot::claim();
      ASSERT_TRUE(mine.ok());
      EXPECT_EQ(mine->number(), 1U) << "the owner lives";
    }
    ASSERT_EQ(::kill(owner, SIGKILL), 0);
    ASSERT_EQ(::waitpid(owner, nullptr, 0), owner);
    auto mine = Slot::claim();
    ASSERT_TRUE(mine.ok());
    EXPECT_EQ(mine->number(), 0U);
  });
}

TEST(Slot, IsNotBlockingAndNotInheritedByAnotherProgram) {
  auto slot = Slot::claim();
  ASSERT_TRUE(slot.ok());
  EXPECT_NE(::fcntl(slot->descriptor(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(::fcntl(slot->descriptor(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(Slot, ForwardsOctetsInOrder) {
  auto from = Slot::claim();
  auto to = Slot::claim();
  ASSERT_TRUE(from && to);
  ASSERT_NE(from->number(), to->number());
  EXPECT_EQ(taken(*to), "");
  EXPECT_TRUE(from->forward(to->number(), octets("first")));
  EXPECT_TRUE(from->forward(to->number(), octets("second")));
  pollfd readable{.fd = to->descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&readable, 1, 0), 1);
  EXPECT_EQ(taken(*to), "first");
  EXPECT_EQ(taken(*to), "second");
  EXPECT_EQ(taken(*to), "");
  EXPECT_TRUE(from->forward(from->number(), octets("to myself")));
  EXPECT_EQ(taken(*from), "to myself");
}

TEST(Slot, ReportsAnEmptySlot) {
  test::in_a_private_network([] {
    auto slot = Slot::claim();
    ASSERT_TRUE(slot.ok());
    EXPECT_FALSE(slot->forward(1, octets("hello")));
    EXPECT_FALSE(slot->forward(kSlotCount, octets("hello")));
    EXPECT_FALSE(slot->forward(0xffff'ffff, octets("hello")));
    EXPECT_FALSE(slot->forward(0, {})) << "nothing to send";
    EXPECT_FALSE(Slot().forward(0, octets("hello"))) << "claimed nothing";
  });
}

TEST(Slot, FailsWhenTheOtherQueueIsFullAndLosesNothingBefore) {
  auto from = Slot::claim();
  auto to = Slot::claim();
  ASSERT_TRUE(from && to);
  constexpr std::size_t kMore = 100'000;  // than any system's queue of datagrams
  std::size_t sent = 0;
  while (sent < kMore && from->forward(to->number(), octets(std::to_string(sent)))) ++sent;
  EXPECT_GT(sent, 0U);
  ASSERT_LT(sent, kMore);
  for (std::size_t i = 0; i < sent; ++i) ASSERT_EQ(taken(*to), std::to_string(i));
  EXPECT_EQ(taken(*to), "");
}

TEST(Slot, DiscardsMessagesThatDoNotFit) {
  auto slot = Slot::claim();
  ASSERT_TRUE(slot.ok());
  EXPECT_TRUE(slot->forward(slot->number(), octets("much too long")));
  EXPECT_TRUE(slot->forward(slot->number(), octets("fits")));
  EXPECT_EQ(taken(*slot, 4), "fits");
  EXPECT_EQ(taken(*slot, 4), "");
}

TEST(Slot, TakesNothingFromAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  auto slot = Slot::claim();
  ASSERT_TRUE(slot.ok());
  sockaddr_un name{};
  socklen_t length = sizeof name;
  ASSERT_EQ(::getsockname(slot->descriptor(), pointer_as<sockaddr>(&name), &length), 0);
  const int ended = test::in_a_child([&] {
    ASSERT_EQ(::setuid(65534), 0);
    const int stranger = ::socket(AF_UNIX, SOCK_DGRAM, 0);
    EXPECT_EQ(::sendto(stranger, "evil", 4, 0, pointer_as<sockaddr>(&name), length), -1);
    EXPECT_EQ(errno, EACCES);
  });
  ASSERT_EQ(ended, 0);
  EXPECT_TRUE(slot->forward(slot->number(), octets("good")));
  EXPECT_EQ(taken(*slot), "good");
  EXPECT_EQ(taken(*slot), "");
}

TEST(Slot, MovesWithItsNumber) {
  auto claimed = Slot::claim();
  ASSERT_TRUE(claimed.ok());
  const std::uint32_t number = claimed->number();
  Slot moved = std::move(*claimed);
  EXPECT_EQ(moved.number(), number);
  EXPECT_EQ(claimed->descriptor(), -1);
  Slot assigned;
  assigned = std::move(moved);
  EXPECT_EQ(assigned.number(), number);
  EXPECT_TRUE(assigned.forward(number, octets("still here")));
  EXPECT_EQ(taken(assigned), "still here");
}

TEST(Slot, LeavesNoDescriptorBehind) {
  const std::size_t before = test::open_descriptor_count();
  for (int i = 0; i < 100; ++i) {
    auto first = Slot::claim();
    auto second = Slot::claim();
    ASSERT_TRUE(first && second);
    *first = std::move(*second);
  }
  EXPECT_EQ(test::open_descriptor_count(), before);
}

}  // namespace
}  // namespace verbatim::host
