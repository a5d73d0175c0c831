// SPDX-License-Identifier: Apache-2.0
// Memory that has moved, and processes: children, and peers that map the arena.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <thread>

#include "rehome/rehoming.h"
#include "rehome/test_moving.h"

namespace verbatim::rehome {
namespace {

using test::kMebi;
using test::kMuchLater;
using test::kStart;
using test::Memory;
using test::page;

/// The one whose handlers run at fork(2); those of pthread_atfork(3) cannot be taken back.
std::atomic<Rehoming*> g_handled = nullptr;

void install_handlers() {
  static const int kInstalled = ::pthread_atfork(
      [] {
        if (g_handled != nullptr) g_handled.load()->before_fork();
      },
      [] {
        if (g_handled != nullptr) g_handled.load()->after_fork_in_parent();
      },
      [] {
        if (g_handled != nullptr) g_handled.load()->after_fork_in_child();
      });
  ASSERT_EQ(kInstalled, 0);
}

class Forked : public test::Moving {
 protected:
  void SetUp() override {
    test::Moving::SetUp();
    install_handlers();
    g_handled = &rehoming_;
  }
  void TearDown() override {
    g_handled = nullptr;
    test::Moving::TearDown();
  }
};

/// Lets one process go on when the other says so.
class Gate {
 public:
  Gate() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  void open() const { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }
  void pass() const {
    char octet = 0;
    EXPECT_EQ(::read(ends_[0], &octet, 1), 1);
  }

 private:
  std::array<int, 2> ends_{};
};

int wait_for(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_P(Forked, ChildHasItsOwnCopyAsOfTheFork) {
  const Memory memory(kMebi + 4 * page());
  memory.fill();
  const Placement placement = move_in(memory.range());
  const Gate parent_has_stored;
  const Gate child_has_stored;
  const pid_t child = ::fork();
  if (child == 0) {
    parent_has_stored.pass();
    const bool is_as_before = memory.is_filled();
    memory.fill(9);
    child_has_stored.open();
    const bool is_private = test::mappings_of_arena() == 0 && memory.is_filled(9);
    ::_exit(is_as_before && is_private && rehoming_.moved_octets() == 0 ? 0 : 1);
  }
  memory.fill(1);
  parent_has_stored.open();
  child_has_stored.pass();
  EXPECT_TRUE(memory.is_filled(1));
  EXPECT_EQ(wait_for(child), 0);
  EXPECT_TRUE(memory.is_filled(1)) << "the child's end touched the parent's memory";
  EXPECT_EQ(test::arena_octets(rehoming_), memory.octets());
  EXPECT_EQ(rehoming_.moved_octets(), memory.octets());
  move_back(placement);
  EXPECT_TRUE(memory.is_filled(1));
}

TEST_P(Forked, ChildMovesMemoryIntoAnArenaOfItsOwn) {
  const Memory memory(8 * page());
  memory.fill();
  const Placement placement = move_in(memory.range());
  const int ended = test::in_a_child([&] {
    EXPECT_EQ(rehoming_.arena().descriptor(), -1);
    const auto its_own = rehoming_.move_in(memory.part(0, 4 * page()), kStart);
    ASSERT_TRUE(its_own.ok()) << to_text(its_own.error());
    EXPECT_TRUE(memory.is_filled());
    memory.fill(4);
    rehoming_.move_back(*its_own, kMuchLater);
    EXPECT_TRUE(memory.is_filled(4));
  });
  EXPECT_EQ(ended, 0);
  EXPECT_TRUE(memory.is_filled());
  move_back(placement);
  EXPECT_TRUE(memory.is_filled());
}

TEST_P(Forked, ChildKeepsWhatIsReadOnlyReadOnly) {
  const Memory memory(4 * page());
  memory.fill();
  ASSERT_EQ(::mprotect(memory.data(), 2 * page(), PROT_READ), 0);
  const Placement placement = move_in(memory.range());
  const int ended = test::in_a_child([&] {
    EXPECT_TRUE(memory.is_filled());
    EXPECT_EQ(test::mappings_of_arena(), 0U);
    EXPECT_EQ(test::mappings([&](const Mapping& mapping) {
                return mapping.range.overlaps(memory.part(0, 2 * page())) && mapping.writable;
              }),
              0U);
    memory.data()[3 * page()] = std::byte{1};
  });
  EXPECT_EQ(ended, 0);
  EXPECT_TRUE(memory.is_filled());
  move_back(placement);
  EXPECT_TRUE(memory.is_filled());
}

TEST_P(Forked, ChildOfAChildHasItsOwnCopy) {
  const Memory memory(4 * page());
  memory.fill();
  const Placement placement = move_in(memory.range());
  const int ended = test::in_a_child([&] {
    const auto again = rehoming_.move_in(memory.range(), kStart);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(test::in_a_child([&] {
                EXPECT_TRUE(memory.is_filled());
                memory.fill(2);
              }),
              0);
    EXPECT_TRUE(memory.is_filled());
    rehoming_.move_back(*again, kMuchLater);
  });
  EXPECT_EQ(ended, 0);
  move_back(placement);
}

TEST_P(Forked, ChildInheritsNothingAfterForkInit) {
  const Memory memory(4 * page());
  memory.fill();
  rehoming_.set_dont_fork();
  const Placement placement = move_in(memory.range());
  const std::size_t before = test::mappings([](const Mapping&) { return true; });
  const int ended = test::in_a_child([&] {
    EXPECT_EQ(test::mappings_in(memory.range()), 0U);
    EXPECT_EQ(test::mappings_of_arena(), 0U);
    EXPECT_LT(test::mappings([](const Mapping&) { return true; }), before);
  });
  EXPECT_EQ(ended, 0);
  EXPECT_TRUE(memory.is_filled());
  move_back(placement);
  EXPECT_TRUE(memory.is_filled());
  EXPECT_EQ(test::in_a_child([&] { EXPECT_TRUE(memory.is_filled()); }), 0)
      << "inherited again once it is back";
}

TEST_P(Forked, InTheMiddleOfAMoveChildrenSeeEveryPage) {
  const Memory memory(kMebi + 64 * page());
  memory.fill();
  std::atomic<bool> stopped = false;
  std::thread mover([&] {
    while (!stopped) {
      const auto placement = rehoming_.move_in(memory.range(), kStart);
      ASSERT_TRUE(placement.ok()) << to_text(placement.error());
      rehoming_.move_back(*placement, kMuchLater);
    }
  });
  for (int round = 0; round < test::rounds(30); ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      bool is_whole = true;
      for (std::size_t i = 0; i < memory.octets(); i += page()) {
        is_whole &= memory.data()[i] != std::byte{0} ||
                    static_cast<std::byte>(i * 7 + i / 4096 * 13 + 1) == std::byte{0};
        memory.data()[i] = std::byte{0x5a};
      }
      ::_exit(is_whole ? 0 : 1);
    }
    ASSERT_GT(child, 0);
    ASSERT_EQ(wait_for(child), 0);
  }
  stopped = true;
  mover.join();
  EXPECT_TRUE(memory.is_filled());
}

VB_WITH_EVERY_GUARD(Forked);

struct Letter {
  std::uint64_t offset = 0;
  std::uint64_t octets = 0;
};

void send_letter(int socket, const Letter& letter, int descriptor) {
  iovec part{.iov_base = const_cast<Letter*>(&letter), .iov_len = sizeof letter};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  ASSERT_EQ(::sendmsg(socket, &message, 0), static_cast<ssize_t>(sizeof letter));
}

int receive_letter(int socket, Letter& letter) {
  iovec part{.iov_base = &letter, .iov_len = sizeof letter};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  int descriptor = -1;
  if (::recvmsg(socket, &message, 0) == static_cast<ssize_t>(sizeof letter)) {
    std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
  }
  return descriptor;
}

class Peer : public test::Moving {};

TEST_P(Peer, SeesStoresAndIsSeen) {
  std::array<int, 2> sockets{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets.data()), 0);
  const Gate peer_has_stored;
  const Gate owner_has_stored;
  const pid_t peer = ::fork();
  if (peer == 0) {
    Letter letter;
    const int file = receive_letter(sockets[1], letter);
    void* mapped = ::mmap(nullptr, letter.octets, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                          static_cast<off_t>(letter.offset));
    if (mapped == MAP_FAILED) ::_exit(2);
    auto* octets = static_cast<volatile unsigned char*>(mapped);
    const bool has_contents = octets[5] == 0x11;
    octets[7] = 0x22;
    peer_has_stored.open();
    owner_has_stored.pass();
    const bool sees_stores = octets[9] == 0x33;
    const bool is_sealed = ::ftruncate(file, 4096) != 0;
    ::_exit(has_contents && sees_stores && is_sealed ? 0 : 1);
  }
  const Memory memory(8 * page());
  memory.data()[5] = std::byte{0x11};
  const Placement placement = move_in(memory.range());
  send_letter(sockets[0], {.offset = placement.offset, .octets = placement.pages.octets()},
              rehoming_.arena().descriptor());
  peer_has_stored.pass();
  EXPECT_EQ(memory.data()[7], std::byte{0x22});
  memory.data()[9] = std::byte{0x33};
  owner_has_stored.open();
  EXPECT_EQ(wait_for(peer), 0);
  move_back(placement);
  EXPECT_EQ(memory.data()[7], std::byte{0x22});
  ::close(sockets[0]);
  ::close(sockets[1]);
}

VB_WITH_EVERY_GUARD(Peer);

}  // namespace
}  // namespace verbatim::rehome
