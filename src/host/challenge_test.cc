// SPDX-License-Identifier: Apache-2.0
// Which processes the kernel shows the secret to, and so which processes a door lets in.
#include "host/challenge.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "host/attach_answer.h"
#include "host/door.h"
#include "host/peer.h"
#include "host/slot.h"
#include "host/test_process.h"
#include "host/unix_name.h"
#include "host/viewer.h"

namespace verbatim::host {
namespace {

constexpr std::uint32_t kSlot = 7;
constexpr std::uint32_t kOwnSlot = 2;
constexpr Duration kPatience = std::chrono::seconds(30);  // only bounds a hang
constexpr std::size_t kOctets = 1 << 16;

/// A process that has a door and serves it, in a child of its own until this goes.
class Owner {
 public:
  Owner() {
    int ready[2];
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) serve(ready[1]);
    char octet = 0;
    EXPECT_EQ(::read(ready[0], &octet, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] pid_t process() const noexcept { return pid_; }

 private:
  [[noreturn]] static void serve(int ready) {
    auto slot = Slot::claim(kSlot);
    const int file = ::memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    (void)!::ftruncate(file, kOctets);
    (void)::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK);
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    Door door;
    const int bell = ::eventfd(0, EFD_CLOEXEC);
    if (!door.open(kSlot, epoll, {.segment = file, .bell = bell, .lends_memory = true})) ::_exit(1);
    (void)!::write(ready, "x", 1);
    while (true) {
      epoll_event event;
      if (::epoll_wait(epoll, &event, 1, -1) > 0) (void)door.serve();
    }
  }
  pid_t pid_ = 0;
};

int connect_to_door() {
  const int connection = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  EXPECT_EQ(UnixName::of_door(kSlot).connect(connection), 0);
  return connection;
}

void say_hello(int connection) {
  AttachMessage hello;
  hello.slot = kOwnSlot;
  EXPECT_EQ(::send(connection, &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
}

bool gets_something(int connection) {
  pollfd answer{.fd = connection, .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&answer, 1, 30'000), 1);
  std::byte octet;
  return ::recv(connection, &octet, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void give_up_capabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct none[2]{};
  ASSERT_EQ(::syscall(SYS_capset, &header, none), 0);
  ASSERT_EQ(::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
}

void write_to(const char* path, const std::string& text) {
  const int file = ::open(path, O_WRONLY | O_CLOEXEC);
  (void)!::write(file, text.data(), text.size());
  ::close(file);
}

/// In a new user namespace: the numbers of the user and the group stay the same.
void map_to_same(uid_t user, gid_t group) {
  write_to("/proc/self/setgroups", "deny");
  for (const auto& [path, id] : {std::pair{"uid_map", user}, std::pair{"gid_map", group}}) {
    const std::string number = std::to_string(id);
    write_to((std::string("/proc/self/") + path).c_str(), number + " " + number + " 1");
  }
  ASSERT_EQ(::geteuid(), user);
  ASSERT_EQ(::getegid(), group);
}

void move_to_own_user_namespace() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  ASSERT_EQ(::unshare(CLONE_NEWUSER), 0);
  map_to_same(user, group);
}

bool kernel_lets_us_open_memory_of(pid_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/mem";
  const int memory = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (memory >= 0) ::close(memory);
  return memory >= 0;
}

/// Runs in a child process, which `become` first changes.
template <typename Become>
void expect_kept_out(Become&& become) {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  test::in_a_private_network([&] {
    if (::geteuid() != user) map_to_same(user, group);
    const Owner owner;
    EXPECT_TRUE(Peer::attach(kOwnSlot, kSlot, kPatience).error() == Errc::kNotSupported)
        << "let in, and then the empty segment makes no sense";
    EXPECT_EQ(test::in_a_child([&] {
                become();
                if (::testing::Test::HasFatalFailure()) return;
                EXPECT_FALSE(kernel_lets_us_open_memory_of(owner.process()));
                const auto attached = Peer::attach(kOwnSlot, kSlot, kPatience);
                ASSERT_FALSE(attached.ok());
                EXPECT_EQ(attached.error(), Errc::kAccessDenied);
                Viewer viewer;
                const auto sights = viewer.look(kPatience);
                ASSERT_EQ(sights.size(), 1U);
                EXPECT_EQ(sights[0].kind, Viewer::Sight::Kind::kHidden);
              }),
              0);
  });
}

TEST(Challenge, IsNotMetByAProcessWithFewerCapabilities) { expect_kept_out(give_up_capabilities); }

TEST(Challenge, IsNotMetByAProcessOfAnotherUserNamespace) {
#if VB_THREAD_SANITIZER
  GTEST_SKIP() << "a process with the sanitizer's thread cannot have a user namespace of its own";
#endif
  expect_kept_out(move_to_own_user_namespace);
}

TEST(Challenge, AWrongSecretIsRefused) {
  test::in_a_private_network([] {
    const Owner owner;
    const int connection = connect_to_door();
    say_hello(connection);
    ASSERT_TRUE(gets_something(connection));
    ChallengeMessage challenge;
    ASSERT_EQ(::recv(connection, &challenge, sizeof challenge, 0),
              static_cast<ssize_t>(sizeof challenge));
    const auto secret = Challenge::answer_to(connection, challenge.descriptor);
    ASSERT_TRUE(secret.has_value());
    ProofMessage proof;
    proof.secret = *secret;
    proof.secret[15] ^= 1;
    EXPECT_EQ(::send(connection, &proof, sizeof proof, 0), static_cast<ssize_t>(sizeof proof));
    EXPECT_FALSE(gets_something(connection));
    ::close(connection);
  });
}

TEST(Challenge, ASecretOfAnEarlierConnectionIsRefused) {
  test::in_a_private_network([] {
    const Owner owner;
    ProofMessage proof;
    for (const bool is_first : {true, false}) {
      const int connection = connect_to_door();
      say_hello(connection);
      ASSERT_TRUE(gets_something(connection));
      ChallengeMessage challenge;
      ASSERT_GT(::recv(connection, &challenge, sizeof challenge, 0), 0);
      if (is_first) proof.secret = *Challenge::answer_to(connection, challenge.descriptor);
      EXPECT_GT(::send(connection, &proof, sizeof proof, 0), 0);
      EXPECT_EQ(gets_something(connection), is_first);
      ::close(connection);
    }
  });
}

/// A process that may not look into the owner stands between the owner and a process that may: it
/// has a door of its own and forwards the owner's challenge.
TEST(Challenge, IsNotMetForAProcessThatPassesItOn) {
  test::in_a_private_network([] {
    const Owner owner;
    const int to_owner = connect_to_door();
    say_hello(to_owner);
    ASSERT_TRUE(gets_something(to_owner));
    ChallengeMessage challenge;
    ASSERT_GT(::recv(to_owner, &challenge, sizeof challenge, 0), 0);
    int between[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, between), 0);
    ASSERT_GT(::send(between[0], &challenge, sizeof challenge, 0), 0);
    EXPECT_FALSE(meet_challenge(between[1]).ok());
    std::byte octet;
    EXPECT_EQ(::recv(between[0], &octet, 1, MSG_DONTWAIT), -1) << "nothing is said";
  });
}

/// A condition that held when the connection was accepted may no longer hold when the descriptors
/// are sent.
TEST(Challenge, ADoorLooksAtItsProcessAgainBeforeItLetsAnotherIn) {
  test::in_a_private_network([] {
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    const int file = ::memfd_create("segment", MFD_CLOEXEC);
    Door door;
    ASSERT_TRUE(door.open(kSlot, epoll, {.segment = file, .lends_memory = true}).ok());
    const int connection = connect_to_door();
    (void)door.serve();
    say_hello(connection);
    (void)door.serve();
    ASSERT_TRUE(meet_challenge(connection).ok());
    ASSERT_EQ(::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), 0);
    (void)door.serve();
    EXPECT_FALSE(gets_something(connection));
  });
}

TEST(Challenge, IsKeptAsLongAsItIsAwaitedAndNoLonger) {
  test::in_a_private_network([] {
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    const int file = ::memfd_create("segment", MFD_CLOEXEC);
    Door door;
    ASSERT_TRUE(door.open(kSlot, epoll, {.segment = file}).ok());
    const std::size_t before = test::open_descriptor_count();
    for (int i = 0; i < 3; ++i) {
      const int connection = connect_to_door();
      say_hello(connection);
      (void)door.serve();
      EXPECT_EQ(test::open_descriptor_count(), before + 3) << "two ends and the secret";
      ASSERT_TRUE(meet_challenge(connection).ok());
      (void)door.serve();
      EXPECT_EQ(test::open_descriptor_count(), before + 2);
      EXPECT_TRUE(gets_something(connection));
      ::close(connection);
      (void)door.serve();
      EXPECT_EQ(test::open_descriptor_count(), before);
    }
  });
}

}  // namespace
}  // namespace verbatim::host
