// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <span>
#include <string>

#include "base/own_threads.h"
#include "base/pointer.h"
#include "rehome/alone.h"
#include "rehome/line_reader.h"
#include "rehome/mapping.h"
#include "rehome/rehoming.h"

/// Helpers of the tests of this layer. Nothing but tests includes this.
namespace verbatim::rehome::test {

inline constexpr std::size_t kMebi = std::size_t{1} << 20;

inline constexpr bool kIsSanitized = VB_ADDRESS_SANITIZER || VB_THREAD_SANITIZER;

/// Sanitizers make everything some twenty times slower.
inline constexpr int rounds(int wanted) { return kIsSanitized ? wanted / 8 + 1 : wanted; }

inline std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

/// Private memory with inaccessible pages around it, so that no neighbour merges with it.
class Memory {
 public:
  explicit Memory(std::size_t octets, int protection = PROT_READ | PROT_WRITE, int flags = 0)
      : octets_(octets) {
    whole_ = ::mmap(nullptr, octets + 2 * page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(whole_, MAP_FAILED);
    data_ = static_cast<std::byte*>(whole_) + page();
    if (flags == 0) {
      EXPECT_EQ(::mprotect(data_, octets, protection), 0);
    } else {
      EXPECT_EQ(::mmap(data_, octets, protection, MAP_FIXED | flags, -1, 0), data_);
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { ::munmap(whole_, octets_ + 2 * page()); }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t octets() const { return octets_; }
  [[nodiscard]] std::span<std::byte> span() const { return {data_, octets_}; }
  [[nodiscard]] Range range() const { return part(0, octets_); }
  [[nodiscard]] Range part(std::size_t offset, std::size_t octets) const {
    const auto begin = numeric_address(data_) + offset;
    return {.begin = begin, .end = begin + octets};
  }
  /// Fills the memory with octets that depend on their position.
  void fill(unsigned seed = 0) const {
    for (std::size_t i = 0; i < octets_; ++i) data_[i] = expected(i, seed);
  }
  [[nodiscard]] bool is_filled(unsigned seed = 0) const {
    for (std::size_t i = 0; i < octets_; ++i) {
      if (data_[i] != expected(i, seed)) return false;
    }
    return true;
  }
  [[nodiscard]] bool is_zero() const {
    for (std::size_t i = 0; i < octets_; ++i) {
      if (data_[i] != std::byte{0}) return false;
    }
    return true;
  }

 private:
  [[nodiscard]] static std::byte expected(std::size_t i, unsigned seed) {
    return static_cast<std::byte>(i * 7 + i / 4096 * 13 + seed + 1);
  }
  std::size_t octets_;
  void* whole_ = nullptr;
  std::byte* data_ = nullptr;
};

/// Whether the system offers userfaultfd with the events that moving needs. Old kernels, containers
/// with a seccomp profile and emulators do not.
inline bool has_memory_events() {
  const auto watcher =
      static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
  if (watcher < 0) return false;
  uffdio_api api{.api = UFFD_API,
                 .features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP |
                             UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
                 .ioctls = 0};
  const bool has_events = ::ioctl(watcher, UFFDIO_API, &api) == 0;
  ::close(watcher);
  return has_events;
}

/// Why tests of moving are skipped; null when they are not. Where the system offers what moving
/// needs, memory that does not move is a failure and not a reason to skip: otherwise a defect that
/// prevents all moving would pass. The thread sanitizer runs a thread of its own, so nothing moves.
inline const char* obstacle() {
  if (!is_alone()) return "the test program has another thread";
  if (!has_memory_events()) return "the system has no userfaultfd with events";
  static const auto kPlacement = [] {
    static auto* const memory = new Memory(page());
    return (new Rehoming({.policy = Policy::kEdges}))->move_in(memory->range());
  }();
  if (kPlacement.ok()) return nullptr;
  ADD_FAILURE() << "the system has userfaultfd with events, but memory does not move";
  return to_text(kPlacement.error());
}

/// Octets of memory that the arena uses.
inline std::size_t arena_octets(Rehoming& rehoming) {
  struct stat state {};
  if (rehoming.arena().descriptor() < 0) return 0;
  EXPECT_EQ(::fstat(rehoming.arena().descriptor(), &state), 0);
  return static_cast<std::size_t>(state.st_blocks) * 512;
}

/// How many mappings of a kind the process has.
template <typename Wanted>
std::size_t mappings(Wanted&& wanted) {
  std::size_t count = 0;
  EXPECT_EQ(for_each_line("/proc/self/maps",
                          [&](std::string_view line) {
                            const auto mapping = parse_mapping(line);
                            EXPECT_TRUE(mapping) << line;
                            count += mapping && wanted(*mapping) ? 1U : 0U;
                            return true;
                          }),
            0);
  return count;
}

inline std::size_t mappings_of_arena() {
  return mappings(
      [](const Mapping& mapping) { return mapping.name.starts_with("/memfd:verbatim-regions"); });
}

inline std::size_t mappings_in(Range range) {
  return mappings([&](const Mapping& mapping) { return mapping.range.overlaps(range); });
}

/// Runs `body` in a child process and returns how it ended: 0 when no expectation failed.
template <typename Body>
int in_a_child(Body&& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    OwnThread::reset_in_child();
    body();
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

/// As in_a_child(), as a user without rights.
template <typename Body>
int as_nobody(Body&& body) {
  return in_a_child([&] {
    constexpr uid_t kNobody = 65534;
    if (::getuid() == 0) {
      ASSERT_EQ(::setgroups(0, nullptr), 0);
      ASSERT_EQ(::setgid(kNobody), 0);
      ASSERT_EQ(::setuid(kNobody), 0);
      ASSERT_EQ(::prctl(PR_SET_DUMPABLE, 1),
                0);  // which setuid(2) took away, and /proc/self with it
    }
    body();
  });
}

}  // namespace verbatim::rehome::test

#define VB_SKIP_IF_NOTHING_MOVES() \
  if (const char* obstacle = test::obstacle(); obstacle != nullptr) GTEST_SKIP() << obstacle
