// SPDX-License-Identifier: Apache-2.0
#include "host/viewer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>

#include "base/pointer.h"
#include "host/attach_answer.h"
#include "host/door.h"
#include "host/segment.h"
#include "host/test_process.h"
#include "host/unix_name.h"

namespace verbatim::host {
namespace {

constexpr Duration kPatience = std::chrono::seconds(20);  // bounds a hang
constexpr Duration kShortly = std::chrono::milliseconds(50);
constexpr std::size_t kOctets = 64 * 1024;

/// A process of this host for these tests: a slot, a segment and a door.
class Process {
 public:
  explicit Process(std::uint32_t number, bool admits_peers = true)
      : epoll_(::epoll_create1(EPOLL_CLOEXEC)), bell_(::eventfd(0, EFD_CLOEXEC)) {
    slot_ = std::move(*Slot::claim(number));
    EXPECT_TRUE(segment_.open(kOctets).ok());
    EXPECT_TRUE(
        door_
            .open(number, epoll_,
                  {.segment = segment_.descriptor(), .bell = bell_, .admits_peers = admits_peers})
            .ok());
  }
  ~Process() {
    stop();
    door_.close();
    ::close(epoll_);
    ::close(bell_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Answers at the door from now on, until stop().
  void run() {
    stops_ = false;
    thread_ = std::thread([this] {
      while (!stops_) {
        gone_ += door_.serve().size();
        ::usleep(200);
      }
    });
  }
  void stop() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
  }
  /// How many peers were noticed to have ended. Only while it does not run.
  [[nodiscard]] std::size_t serve_once() {
    gone_ += door_.serve().size();
    return gone_;
  }
  [[nodiscard]] int descriptor() const noexcept { return segment_.descriptor(); }

 private:
  int epoll_;
  int bell_;
  Slot slot_;
  Segment segment_;
  Door door_;
  std::thread thread_;
  std::atomic<bool> stops_{true};
  std::size_t gone_ = 0;
};

bool is_same_file(int a, int b) {
  struct stat one {};
  struct stat other {};
  return ::fstat(a, &one) == 0 && ::fstat(b, &other) == 0 && one.st_ino == other.st_ino;
}

/// Connects like the process in a slot, or like a viewer, and waits for the answer. Returns the
/// connection, or -1 when it was closed instead.
int knock(const UnixName& name, std::uint32_t slot) {
  const int connection = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  EXPECT_EQ(name.connect(connection), 0);
  AttachMessage hello;
  hello.slot = slot;
  EXPECT_EQ(::send(connection, &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  std::byte octet;
  const auto hears = [&] { return ::recv(connection, &octet, 1, MSG_PEEK) == 1; };
  if (hears() && meet_challenge(connection) && hears()) return connection;
  ::close(connection);
  return -1;
}

using Kind = Viewer::Sight::Kind;

TEST(Viewer, SeesNoProcessOnAnEmptyHost) {
  test::in_a_private_network([] {
    Viewer viewer;
    EXPECT_TRUE(viewer.look(kPatience).empty());
  });
}

TEST(Viewer, SeesProcessesThatAdmitPeersAndThoseThatDoNot) {
  test::in_a_private_network([] {
    Process open(3);
    Process closed(200, false);
    open.run();
    closed.run();
    Viewer viewer;
    const auto sights = viewer.look(kPatience);
    ASSERT_EQ(sights.size(), 2U);
    EXPECT_EQ(sights[0].slot, 3U);
    EXPECT_EQ(sights[1].slot, 200U);
    for (const auto& sight : sights) {
      EXPECT_EQ(sight.kind, Kind::kShown);
      EXPECT_EQ(sight.process, ::getpid());
      EXPECT_EQ(sight.octets, kOctets);
    }
    EXPECT_TRUE(is_same_file(sights[0].segment, open.descriptor()));
    EXPECT_TRUE(is_same_file(sights[1].segment, closed.descriptor()));
    EXPECT_EQ(knock(UnixName::of_view(200), 7), -1);  // a peer
  });
}

TEST(Viewer, IsGivenTheSegmentAlone) {
  test::in_a_private_network([] {
    Process process(5);
    process.run();
    const int connection = knock(UnixName::of_door(5), AttachMessage::kViewer);
    const AttachAnswer answer(connection);
    EXPECT_TRUE(answer.makes_sense);
    EXPECT_GE(answer.descriptors[AttachMessage::kSegment], 0);
    EXPECT_EQ(answer.descriptors[AttachMessage::kBell], -1);
    EXPECT_EQ(answer.descriptors[AttachMessage::kArena], -1);
    ::close(connection);
  });
}

TEST(Viewer, ComesAndGoesWithoutItsOwnerTakingNoteOfIt) {
  test::in_a_private_network([] {
    Process process(5);
    process.run();
    EXPECT_EQ(Viewer().look(kPatience).size(), 1U);
    ::close(knock(UnixName::of_door(5), 9));
    process.stop();
    EXPECT_EQ(process.serve_once(), 1U);  // the peer, not the viewer
  });
}

TEST(Viewer, DoesNotWaitForOneBehindTheOther) {
  test::in_a_private_network([] {
    Process stopped(1);
    Process alive(2);
    Process stopped_too(3);
    alive.run();
    Viewer viewer;
    auto sights = viewer.look(kShortly);
    // The running process may be slow as well, on a busy machine.
    while (sights.size() == 3 && sights[1].kind == Kind::kSilent) sights = viewer.look(kShortly);
    ASSERT_EQ(sights.size(), 3U);
    EXPECT_EQ(sights[0].kind, Kind::kSilent);
    EXPECT_EQ(sights[0].process, ::getpid());
    EXPECT_EQ(sights[1].kind, Kind::kShown);
    EXPECT_EQ(sights[2].kind, Kind::kSilent);

    stopped.run();  // it continues, and answers the earlier question
    stopped_too.run();
    sights = viewer.look(kPatience);
    ASSERT_EQ(sights.size(), 3U);
    EXPECT_EQ(sights[0].kind, Kind::kShown);
    EXPECT_EQ(sights[2].kind, Kind::kShown);
  });
}

TEST(Viewer, SeesTheNextProcessOfASlotAfterTheFirstHasEnded) {
  test::in_a_private_network([] {
    Viewer viewer;
    {
      Process process(0);
      process.run();
      ASSERT_EQ(viewer.look(kPatience).size(), 1U);
    }
    EXPECT_TRUE(viewer.look(kPatience).empty());
    {
      Process process(0);
      process.run();
      ASSERT_EQ(viewer.look(kPatience).size(), 1U);
    }
    Process process(0);
    process.run();
    const auto sights = viewer.look(kPatience);
    ASSERT_EQ(sights.size(), 1U);
    EXPECT_TRUE(is_same_file(sights[0].segment, process.descriptor()));
  });
}

/// Answers a process that connects to slot 0, after a challenge or without one, with these octets,
/// and with a descriptor if there is one.
void lie(std::string_view octets, int descriptor, bool challenges = true) {
  const auto slot = Slot::claim(0);
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ASSERT_EQ(UnixName::of_door(0).bind(listener), 0);
  ASSERT_EQ(::listen(listener, 4), 0);
  std::thread liar([&] {
    const int connection = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    iovec part{.iov_base = const_cast<char*>(octets.data()), .iov_len = octets.size()};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof descriptor)> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(sizeof descriptor);
      std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
    }
    Challenge challenge;
    if (challenges && challenge.open()) {
      ChallengeMessage question;
      question.descriptor = challenge.descriptor();
      (void)::send(connection, &question, sizeof question, MSG_NOSIGNAL);
      AttachMessage hello;
      ProofMessage proof;
      EXPECT_EQ(::recv(connection, &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
      EXPECT_EQ(::recv(connection, &proof, sizeof proof, 0), static_cast<ssize_t>(sizeof proof));
      EXPECT_TRUE(challenge.is_met_by(proof.secret));
    }
    if (!octets.empty()) (void)::sendmsg(connection, &message, MSG_NOSIGNAL);
    ::close(connection);
  });
  Viewer viewer;
  const auto sights = viewer.look(kPatience);
  liar.join();
  ::close(listener);
  ASSERT_EQ(sights.size(), 1U);
  EXPECT_EQ(sights[0].kind, Kind::kHidden);
}

TEST(Viewer, RefusesAnswersThatMakeNoSense) {
  test::in_a_private_network([] {
    AttachMessage message;
    message.descriptors = 1;
    const std::string_view right(pointer_as<const char>(&message), sizeof message);
    const int unsealed = ::memfd_create("unsealed", MFD_CLOEXEC);
    ASSERT_EQ(::ftruncate(unsealed, kOctets), 0);
    const std::size_t open_before = test::open_descriptor_count();
    lie("", -1);
    lie("nonsense", -1);
    lie(right, -1);
    lie(right, unsealed);
    lie(right.substr(0, 15), unsealed);
    lie(right, unsealed, false);
    lie("", -1, false);
    AttachMessage other = message;
    other.version = SegmentHeader::kVersion + 1;
    lie({pointer_as<const char>(&other), sizeof other}, unsealed);
    EXPECT_EQ(test::open_descriptor_count(), open_before);
    ::close(unsealed);
  });
}

}  // namespace
}  // namespace verbatim::host
