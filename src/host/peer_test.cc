// SPDX-License-Identifier: Apache-2.0
// Attaching to a process whose segment is wrong in some way: attaching fails, so the processes use
// packets, and nothing wrong is mapped.
#include "host/peer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/pointer.h"
#include "host/bells.h"
#include "host/door.h"
#include "host/test_mappings.h"
#include "host/test_process.h"
#include "memory/key_entry.h"

namespace verbatim::host {
namespace {

constexpr std::uint32_t kOwnSlot = 2;
constexpr std::uint32_t kSlot = 7;
constexpr std::uint64_t kOctets = 1 << 16;
constexpr Duration kPatience = std::chrono::seconds(30);  // only bounds a hang

SegmentHeader honest_header() {
  SegmentHeader header;
  header.magic = SegmentHeader::kMagic;
  header.version = SegmentHeader::kVersion;
  header.octets = kOctets;
  header.keys_at = 2048;
  header.key_count = 16;
  header.bells_at = 8192;
  header.slot = kSlot;
  header.address_count = 1;
  header.addresses[0][15] = 9;
  return header;
}

/// What a process offers at its door.
struct Offering {
  SegmentHeader header = honest_header();
  std::uint64_t file_octets = kOctets;
  int seals = F_SEAL_SHRINK;
};

/// A door with such a segment, while this object exists.
class FakeProcess {
 public:
  explicit FakeProcess(const Offering& offering) {
    file_ = ::memfd_create("peer_test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(::ftruncate(file_, static_cast<off_t>(offering.file_octets)), 0);
    const auto written = std::min<std::uint64_t>(sizeof offering.header, offering.file_octets);
    EXPECT_EQ(::pwrite(file_, &offering.header, written, 0), static_cast<ssize_t>(written));
    if (offering.seals != 0) {
      EXPECT_EQ(::fcntl(file_, F_ADD_SEALS, offering.seals), 0);
    }
    EXPECT_TRUE(
        door_.open(kSlot, epoll_, {.segment = file_, .bell = bell_, .lends_memory = true}).ok());
    server_ = std::thread([this] {
      while (!stop_) {
        epoll_event event;
        if (::epoll_wait(epoll_, &event, 1, 10) > 0) (void)door_.serve();
      }
    });
  }
  ~FakeProcess() {
    stop_ = true;
    server_.join();
    door_.close();
    for (const int descriptor : {file_, bell_, epoll_}) ::close(descriptor);
  }
  FakeProcess(const FakeProcess&) = delete;
  FakeProcess& operator=(const FakeProcess&) = delete;

 private:
  int file_ = -1;
  int bell_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  Door door_;
  std::atomic<bool> stop_{false};
  std::thread server_;
};

/// The result of attaching; kBusy stands for success.
Errc outcome_of(const std::function<void(Offering&)>& change) {
  Offering offering;
  change(offering);
  const FakeProcess process(offering);
  const auto attached = Peer::attach(kOwnSlot, kSlot, kPatience);
  return attached ? Errc::kBusy : attached.error();
}

TEST(Peer, AttachesToAProcessOfItsKind) {
  test::in_a_private_network([] {
    const FakeProcess process(Offering{});
    const auto attached = Peer::attach(kOwnSlot, kSlot, kPatience);
    ASSERT_TRUE(attached.ok());
    EXPECT_EQ((*attached)->header().octets, kOctets);
    EXPECT_TRUE((*attached)->answers_at({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}));
    EXPECT_NE((*attached)->at(kOctets - 64, 64), nullptr);
    EXPECT_EQ((*attached)->at(kOctets - 64, 65), nullptr);
    EXPECT_EQ((*attached)->at(~std::uint64_t{0}, 64), nullptr);
    EXPECT_FALSE((*attached)->look());
  });
}

/// A file of 16 GiB, of which 64 KiB are in use, must not cost more because the program ends in a
/// core dump or locks its memory.
TEST(Peer, TheSegmentOfAPeerIsLeftOutOfCoreDumpsAndAccessibleInPart) {
  test::in_a_private_network([] {
    constexpr std::uint64_t kLong = std::uint64_t{16} << 30;
    Offering offering;
    offering.file_octets = offering.header.octets = kLong;
    const FakeProcess process(offering);
    const auto attached = Peer::attach(kOwnSlot, kSlot, kPatience);
    ASSERT_TRUE(attached.ok());
    std::byte* const begin = (*attached)->at(0, 1);
    EXPECT_FALSE(test::is_in_core_dumps(begin));
    EXPECT_FALSE(test::is_in_core_dumps(begin + kLong - 1));
    EXPECT_NE(test::flags_of_mapping(begin).find(" rd"), std::string::npos);
    EXPECT_EQ(test::flags_of_mapping(begin + kLong - 1).find(" rd"), std::string::npos);
    std::byte* const last = (*attached)->at(kLong - 1, 1);
    ASSERT_EQ(last, begin + kLong - 1);
    *last = std::byte{1};
  });
}

TEST(Peer, DoesNotAttachToAnEmptySlot) {
  test::in_a_private_network([] {
    const auto attached = Peer::attach(kOwnSlot, kSlot, kPatience);
    ASSERT_FALSE(attached.ok());
    EXPECT_EQ(attached.error(), Errc::kNoSuchObject);
  });
}

TEST(Peer, ANonsensicalSegmentIsNotSupported) {
  test::in_a_private_network([] {
    const auto refuses = [](const char* what, const std::function<void(Offering&)>& change) {
      EXPECT_EQ(outcome_of(change), Errc::kNotSupported) << what;
    };
    EXPECT_EQ(outcome_of([](Offering&) {}), Errc::kBusy) << "nothing was changed";
    refuses("no magic", [](Offering& o) { o.header.magic = 0; });
    refuses("another version", [](Offering& o) { ++o.header.version; });
    refuses("another slot", [](Offering& o) { ++o.header.slot; });
    refuses("empty", [](Offering& o) { o.file_octets = 0; });
    refuses("half a header", [](Offering& o) { o.file_octets = sizeof(SegmentHeader) / 2; });
    refuses("cut off behind the header", [](Offering& o) { o.file_octets = 4096; });
    refuses("may shrink", [](Offering& o) { o.seals = 0; });
    refuses("says that it is larger", [](Offering& o) { o.header.octets = kOctets * 2; });
    refuses("keys behind its end", [](Offering& o) { o.header.keys_at = kOctets; });
    refuses("keys that wrap around", [](Offering& o) { o.header.keys_at = ~std::uint64_t{63}; });
    refuses("too many keys", [](Offering& o) { o.header.key_count = ~0U; });
    refuses("keys askew", [](Offering& o) { o.header.keys_at += 8; });
    refuses("bells behind its end", [](Offering& o) { o.header.bells_at = kOctets - 64; });
    refuses("too many addresses", [](Offering& o) { o.header.address_count = 65; });
  });
}

TEST(Peer, NoticesThatTheOtherHasGone) {
  test::in_a_private_network([] {
    auto process = std::make_unique<FakeProcess>(Offering{});
    const auto attached = Peer::attach(kOwnSlot, kSlot, kPatience);
    ASSERT_TRUE(attached.ok());
    EXPECT_FALSE((*attached)->look());
    process.reset();
    EXPECT_TRUE((*attached)->look());
    EXPECT_EQ(static_cast<int>(*(*attached)->at(kOctets - 1, 1)), 0) << "still mapped";
  });
}

/// A process with a door, which it serves until it is told to stop; then it calls `last`.
class OtherProcess {
 public:
  template <typename First, typename Last>
  OtherProcess(First&& first, Last&& last) {
    EXPECT_EQ(::pipe2(ready_, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(go_, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ != 0) {
      char octet = 0;
      EXPECT_EQ(::read(ready_[0], &octet, 1), 1);
      return;
    }
    const FakeProcess process(Offering{});
    first();
    (void)!::write(ready_[1], "x", 1);
    char octet = 0;
    (void)!::read(go_[0], &octet, 1);
    last();
    while (true) ::pause();
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  ~OtherProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    for (const int end : {ready_[0], ready_[1], go_[0], go_[1]}) ::close(end);
  }
  void go() { (void)!::write(go_[1], "x", 1); }
  /// Returns when the signal has had its effect: the process has stopped or ended.
  void signal(int number) const {
    ::kill(pid_, number);
    siginfo_t info;
    const int what = number == SIGSTOP ? WSTOPPED : WEXITED | WNOWAIT;
    (void)::waitid(P_PID, static_cast<id_t>(pid_), &info, what);
  }

 private:
  int ready_[2]{};
  int go_[2]{};
  pid_t pid_ = 0;
};

/// A peer that is only stopped may store to moved memory when it continues.
TEST(Peer, HasNotGoneBecauseThisProgramHasClosedTheConnection) {
  test::in_a_private_network([] {
    OtherProcess other([] {}, [] {});
    const auto attached = Peer::attach(kOwnSlot, kSlot, kPatience);
    ASSERT_TRUE(attached.ok());
    ::close((*attached)->descriptor());
    other.signal(SIGSTOP);
    EXPECT_FALSE((*attached)->look());
    int ends[2]{};  // the number belongs to another file now, which is readable
    ASSERT_EQ(::pipe(ends), 0);
    EXPECT_FALSE((*attached)->look());
    other.signal(SIGKILL);
    EXPECT_TRUE((*attached)->look());
  });
}

/// A thread of the peer may be in the middle of a store.
TEST(Peer, HasGoneButNotEndedWhenItHasClosedTheConnection) {
  test::in_a_private_network([] {
    OtherProcess other([] {}, [] { ::close_range(3, ~0U, 0); });
    const auto attached = Peer::attach(kOwnSlot, kSlot, kPatience);
    ASSERT_TRUE(attached.ok());
    other.go();
    pollfd ends{.fd = (*attached)->descriptor(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&ends, 1, 30'000), 1);
    EXPECT_TRUE((*attached)->look());
    EXPECT_FALSE((*attached)->has_ended());
    other.signal(SIGKILL);
    EXPECT_TRUE((*attached)->look());
    EXPECT_TRUE((*attached)->has_ended());
  });
}

TEST(Peer, IsReachedThroughItsDescriptorUntilItExecutesAnotherProgram) {
  test::in_a_private_network([] {
    static std::uint64_t value = 1;
    OtherProcess other([] {}, [] { ::execl("/bin/sleep", "sleep", "1000", nullptr); });
    const auto attached = Peer::attach(kOwnSlot, kSlot, kPatience);
    ASSERT_TRUE(attached.ok());
    const int memory = (*attached)->memory();
    ASSERT_GE(memory, 0);
    const auto at = static_cast<off_t>(numeric_address(&value));
    const std::uint64_t written = 2;
    EXPECT_EQ(::pwrite(memory, &written, sizeof written, at), 8);
    std::uint64_t found = 0;
    EXPECT_EQ(::pread(memory, &found, sizeof found, at), 8);
    EXPECT_EQ(found, 2U);
    EXPECT_EQ(value, 1U) << "its memory, not ours";
    other.go();
    pollfd ends{.fd = (*attached)->descriptor(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&ends, 1, 30'000), 1);
    EXPECT_EQ(::pwrite(memory, &written, sizeof written, at), 0);
    EXPECT_EQ(::pread(memory, &found, sizeof found, at), 0);
  });
}

TEST(Peer, AdmitsNoPeerOnceItIsNotDumpable) {
  test::in_a_private_network([] {
    OtherProcess other([] { ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }, [] {});
    EXPECT_FALSE(Peer::attach(kOwnSlot, kSlot, kPatience).ok());
  });
}

TEST(Peer, AdmitsNoPeerOnceItIsAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  test::in_a_private_network([] {
    OtherProcess other(
        [] {
          EXPECT_EQ(::setresuid(54321, 54321, 54321), 0);
          ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        },
        [] {});
    EXPECT_FALSE(Peer::attach(kOwnSlot, kSlot, kPatience).ok());
  });
}

TEST(Peer, AdmitsNoPeerOfAnotherGroup) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  test::in_a_private_network([] {
    const FakeProcess process(Offering{});
    EXPECT_EQ(test::in_a_child([] {
                ASSERT_EQ(::setresgid(54321, 54321, 54321), 0);
                EXPECT_EQ(Peer::attach(kOwnSlot, kSlot, kPatience).error(), Errc::kAccessDenied);
              }),
              0);
  });
}

}  // namespace
}  // namespace verbatim::host
