// SPDX-License-Identifier: Apache-2.0
// Whole devices, and processes that must not reach their memory: those of other users, and a
// program that a peer has executed.
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "host/attach_message.h"
#include "host/public_name.h"
#include "two_ends.h"
#include "two_users.h"

namespace verbatim::testing {
namespace {

constexpr std::uint64_t kReady = 1;
// Users of these tests only: their directories in /tmp are removed.
constexpr uid_t kVictim = 61021;
constexpr uid_t kStranger = 61022;
constexpr uid_t kFirst = 61023;

// ---- Other users ----

void write_file(const char* path, const std::string& text) {
  const int file = ::open(path, O_WRONLY | O_CLOEXEC);
  EXPECT_EQ(::write(file, text.data(), text.size()), static_cast<ssize_t>(text.size())) << path;
  ::close(file);
}

/// The process is in a user namespace of its own, in which its user has this number.
void become_in_namespace(uid_t number) {
  const std::string user = std::to_string(::geteuid());
  const std::string group = std::to_string(::getegid());
  const std::string inside = std::to_string(number);
  ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // else its files in /proc are root's
  EXPECT_EQ(::unshare(CLONE_NEWUSER), 0);
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/gid_map", inside + " " + group + " 1");
  write_file("/proc/self/uid_map", inside + " " + user + " 1");
  EXPECT_EQ(::geteuid(), number);
}

/// The path of the only door of this network namespace.
std::string find_door() {
  std::FILE* list = std::fopen("/proc/thread-self/net/unix", "re");
  char line[512];
  char path[sizeof line];
  std::string door;
  while (std::fgets(line, sizeof line, list) != nullptr) {
    if (std::sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %511s", path) != 1) continue;
    if (std::string(path).ends_with(".attach")) door = path;
  }
  std::fclose(list);
  return door;
}

int connect_to(const std::string& path, int& error) {
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::snprintf(to.sun_path, sizeof to.sun_path, "%s", path.c_str());
  error = ::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0 ? 0 : errno;
  return socket;
}

bool arrives(int socket) {
  pollfd readable{.fd = socket, .events = POLLIN, .revents = 0};
  return ::poll(&readable, 1, 30'000) == 1;
}

TEST(LetIn, AUserWithTheVictimsNumberInItsNamespaceIsKeptOut) {
#if VB_THREAD_SANITIZER
  GTEST_SKIP() << "a process with the sanitizer's thread cannot have a user namespace of its own";
#endif
  constexpr uid_t kOverflow = 65534;  // as which the kernel shows all users that are not mapped
  with_several_users([] {
    UserProcess victim(kVictim, [](const UserProcess::Voice& voice) {
      become_in_namespace(kOverflow);
      End end;
      EXPECT_TRUE(end.open());
      voice.say(kReady);
      (void)voice.hear();
      for (std::uint32_t i = 0; i < End::kOctets; ++i) EXPECT_EQ(end.buffer[i], std::byte{0});
    });
    EXPECT_EQ(victim.hear(), kReady);
    const std::string door = find_door();
    ASSERT_FALSE(door.empty());
    UserProcess stranger(kStranger, [&](const UserProcess::Voice& voice) {
      int error = 0;
      ::close(connect_to(door, error));
      EXPECT_EQ(error, EACCES) << "the directory is the victim's own";
      voice.say(kReady);
      (void)voice.hear();
      // The directory is open now. The victim sees its own user at the other end.
      const int connection = connect_to(door, error);
      EXPECT_EQ(error, 0);
      host::AttachMessage hello;
      hello.slot = 200;
      EXPECT_EQ(::send(connection, &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
      EXPECT_TRUE(arrives(connection));
      EXPECT_EQ(host::meet_challenge(connection).error(), Errc::kAccessDenied);
      const host::ProofMessage guess;
      EXPECT_EQ(::send(connection, &guess, sizeof guess, 0), static_cast<ssize_t>(sizeof guess));
      EXPECT_TRUE(arrives(connection));
      char octet = 0;
      EXPECT_EQ(::recv(connection, &octet, 1, 0), 0) << "let in";
      voice.say(kReady);
      (void)voice.hear();
    });
    EXPECT_EQ(stranger.hear(), kReady);
    const std::filesystem::path directory = std::filesystem::path(door).parent_path();
    const auto set_mode = [&](mode_t mode) {
      for (const auto& each : {std::filesystem::path(door), directory, directory.parent_path()}) {
        EXPECT_EQ(::chmod(each.c_str(), mode), 0);
      }
    };
    set_mode(0777);
    stranger.say(kReady);
    EXPECT_EQ(stranger.hear(), kReady);
    set_mode(0700);
    stranger.say(kReady);
    stranger.expect_good_end();
    victim.say(kReady);
    victim.expect_good_end();
  });
}

void remove_directories_of(uid_t user) {
  const std::string name = ".verbatim-" + std::to_string(user);
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/tmp", ignored)) {
    const std::string found = entry.path().filename();
    if (found == name || found.starts_with(name + "-")) {
      std::filesystem::remove_all(entry.path(), ignored);
    }
  }
}

/// Takes every name that processes of the victim might want, and very many that look like those of
/// the user that lends the port.
void squat(const UserProcess::Voice& voice) {
  rlimit limit{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  const std::string victim = std::to_string(kVictim);
  EXPECT_EQ(::mkdir(("/tmp/.verbatim-" + victim).c_str(), 0777), 0);
  const auto take = [](const std::string& name) {
    const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    return socket >= 0 && host::PublicName(name).bind(socket) == 0 && ::listen(socket, 1) == 0;
  };
  EXPECT_TRUE(take("verbatim/" + victim + "/opening"));
  for (int slot = 0; slot < 256; ++slot) {
    EXPECT_TRUE(take("verbatim/" + victim + "/" + std::to_string(slot)));
  }
  constexpr int kDesks = 15'000;
  for (int i = 0; i < kDesks && take("verbatim/port/" + std::to_string(i)); ++i) {
  }
  voice.say(kReady);
  (void)voice.hear();
}

/// In microseconds: how long an opening by the victim takes.
std::uint64_t time_opening() {
  UserProcess victim(kVictim, [](const UserProcess::Voice& voice) {
    const auto start = std::chrono::steady_clock::now();
    End end;
    EXPECT_TRUE(end.open());
    const auto took = std::chrono::steady_clock::now() - start;
    voice.say(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
    (void)voice.hear();
  });
  const std::uint64_t took = victim.hear();
  victim.say(kReady);
  victim.expect_good_end();
  return took;
}

TEST(LetIn, NamesThatAnotherUserHasTakenDoNotDelayAnOpening) {
  if (::geteuid() == 0) remove_directories_of(kVictim);
  with_several_users([] {
    constexpr int kRounds = 3;
    constexpr std::uint64_t kMuchLonger = 30;
    UserProcess owner(kFirst, [](const UserProcess::Voice& voice) {
      End end;
      EXPECT_TRUE(end.open());
      voice.say(kReady);
      (void)voice.hear();
    });
    EXPECT_EQ(owner.hear(), kReady);
    std::uint64_t without = 0;
    for (int i = 0; i < kRounds; ++i) without = std::max(without, time_opening());
    remove_directories_of(kVictim);
    UserProcess squatter(kStranger, squat);
    EXPECT_EQ(squatter.hear(), kReady);
    std::uint64_t with = time_opening();
    for (int i = 1; i < kRounds; ++i) with = std::min(with, time_opening());
    EXPECT_LT(with, kMuchLonger * without);
    owner.say(kReady);
    owner.expect_good_end();
  });
  if (::geteuid() == 0) remove_directories_of(kVictim);
}

// ---- A program that a peer executes ----

constexpr const char* kPlace = "VERBATIM_TEST_PLACE";  // "<address> <descriptors>": be that program
constexpr int kUntouched = 0;
constexpr int kTouched = 1;
constexpr int kNoPlace = 2;  // something else is at that address

/// The program that a peer executes: it maps memory where the peer had registered memory, and
/// checks it when the test says so.
int be_the_next_program(const char* words) {
  std::uintptr_t address = 0;
  int in = -1;
  int out = -1;
  if (std::sscanf(words, "%zx %d %d", &address, &in, &out) != 3) return kNoPlace;
  void* wanted = reinterpret_cast<void*>(address);
  void* at = ::mmap(wanted, End::kOctets, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (at != wanted) return kNoPlace;
  std::memset(at, 0, End::kOctets);
  char octet = 0;
  if (::write(out, "!", 1) != 1 || ::read(in, &octet, 1) != 1) return kNoPlace;
  const auto* octets = static_cast<const char*>(at);
  return std::count(octets, octets + End::kOctets, 0) == End::kOctets ? kUntouched : kTouched;
}

[[gnu::constructor]] void look_for_a_place() {
  if (const char* words = std::getenv(kPlace)) ::_exit(be_the_next_program(words));
}

struct ExecNotes {
  EndNotes ends[2];
  std::atomic<bool> writes{false};  // the requester does
};

int be_target_and_execute(ExecNotes& notes, int in, int out) {
  ::setenv("VERBATIM_REHOME", "0", 1);
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 11;
  // A mapping of its own, so that the next program can have one there.
  void* at =
      ::mmap(nullptr, End::kOctets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  end.buffer = static_cast<std::byte*>(at);
  if (!end.register_buffer()) return 12;
  end.tell(notes.ends[1], 1);
  if (!await([&] { return notes.ends[0].ready == 1; })) return 13;
  if (!end.connect(end.qp, notes.ends[0].number, {})) return 14;
  end.tell(notes.ends[1], 2);
  if (!await([&] { return notes.writes.load(); })) return 15;
  char words[64];
  std::snprintf(words, sizeof words, "%zx %d %d", reinterpret_cast<std::uintptr_t>(at), in, out);
  ::setenv(kPlace, words, 1);
  ::execl("/proc/self/exe", "let_in_test", nullptr);
  return 16;
}

/// Writes until a WRITE fails, because the process of the other end has ended.
int write_until_it_fails(ExecNotes& notes) {
  ::setenv("VERBATIM_REHOME", "0", 1);
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 1;
  end.tell(notes.ends[0], 1);
  if (!await([&] { return notes.ends[1].ready >= 1; })) return 2;
  if (!end.connect(end.qp, notes.ends[1].number, {.timeout = 10, .retry_count = 1})) return 3;
  if (!await([&] { return notes.ends[1].ready == 2; })) return 4;
  std::memset(end.buffer, 0x5a, End::kOctets);
  for (int written = 0;; ++written) {
    const int status = end.run(IBV_WR_RDMA_WRITE, notes.ends[1], 64);
    if (status != IBV_WC_SUCCESS) return status == IBV_WC_RETRY_EXC_ERR ? 0 : 5;
    notes.writes = written > 100;
  }
}

// The target's process number stays the same, and so do its segment and its keys in the requester.
TEST(LetIn, AWriteDoesNotReachTheProgramThatThePeerHasExecuted) {
  constexpr int kRounds = 8;
  const char* path = std::getenv("VERBATIM_PATH");
  if (path != nullptr && std::strcmp(path, "packet") == 0)
    GTEST_SKIP() << "packets name no process";
  int looked = 0;
  for (int round = 0; round < kRounds; ++round) {
    auto* notes = share_with_children<ExecNotes>();
    ASSERT_NE(notes, nullptr);
    int to[2];
    int from[2];
    ASSERT_TRUE(::pipe(to) == 0 && ::pipe(from) == 0);  // the executed program inherits them
    const pid_t target = ::fork();
    if (target == 0) ::_exit(be_target_and_execute(*notes, to[0], from[1]));
    const pid_t requester = ::fork();
    if (requester == 0) ::_exit(write_until_it_fails(*notes));
    ::close(from[1]);
    int status = 0;
    ASSERT_EQ(::waitpid(requester, &status, 0), requester);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    char octet = 0;
    (void)!::read(from[0], &octet, 1);  // the program runs, and has its memory or not
    EXPECT_EQ(::write(to[1], "?", 1), 1);
    ASSERT_EQ(::waitpid(target, &status, 0), target);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_TRUE(WEXITSTATUS(status) == kUntouched || WEXITSTATUS(status) == kNoPlace)
        << "status " << WEXITSTATUS(status);
    looked += WEXITSTATUS(status) == kUntouched ? 1 : 0;
    for (const int end : {to[0], to[1], from[0]}) ::close(end);
  }
  EXPECT_GT(looked, kRounds / 2) << "the program had its memory elsewhere nearly every time";
}

}  // namespace
}  // namespace verbatim::testing
