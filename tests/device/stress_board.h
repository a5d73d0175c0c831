// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>

namespace verbatim::testing {

/// What a program does with its memory.
enum class Deed : std::uint8_t {
  kStore,
  kMap,
  kUnmap,
  kEmpty,     // MADV_DONTNEED
  kRelocate,  // mremap(2) to another address
  kRegister,
  kDeregister,
  kWrite,  // RDMA WRITE and READ, the memory at either end
  kRead,
  kStaleKey,    // a key whose memory was unmapped or replaced
  kFileRead,    // pread(2)
  kDirectRead,  // the same with O_DIRECT
  kRingRead,    // io_uring
  kFlyingRead,  // io_uring with O_DIRECT, under way while the memory is registered
  kFixedRead,   // io_uring with registered buffers
  kReceive,     // recv(2)
  kFork,
  kOtherWrites,        // process_vm_writev(2) of a child
  kOtherWritesAtOnce,  // the same while the memory is registered
  kLast = kOtherWritesAtOnce,
};
inline constexpr std::size_t kDeedCount = static_cast<std::size_t>(Deed::kLast) + 1;
inline constexpr std::array<const char*, kDeedCount> kDeedNames = {"store",
                                                                   "mmap",
                                                                   "munmap",
                                                                   "MADV_DONTNEED",
                                                                   "mremap",
                                                                   "register",
                                                                   "deregister",
                                                                   "RDMA WRITE",
                                                                   "RDMA READ",
                                                                   "stale key",
                                                                   "pread",
                                                                   "O_DIRECT",
                                                                   "io_uring",
                                                                   "io_uring under way",
                                                                   "io_uring fixed",
                                                                   "recv",
                                                                   "fork",
                                                                   "process_vm_writev",
                                                                   "process_vm_writev at once"};

/// What the processes of the test tell each other.
struct StressBoard {
  std::array<std::atomic<std::uint64_t>, kDeedCount> done{};
  std::array<std::atomic<bool>, kDeedCount> is_refused{};  // the system does not allow it
  std::atomic<std::uint64_t> moved{0};         // regions that were in the arena after registration
  std::atomic<std::uint64_t> stayed{0};        // regions that were not
  std::atomic<std::uint64_t> forked_moved{0};  // forks of programs that had moved memory
  std::atomic<std::uint64_t> emptied_moved{0};
  std::atomic<std::uint64_t> cancelled{0};
  std::atomic<std::uint64_t> overlaid{0};  // registrations of memory that another thread uses
  std::atomic<std::uint32_t> failures{0};

  void note(Deed deed) { ++done[static_cast<std::size_t>(deed)]; }
  void note_refusal(Deed deed) { is_refused[static_cast<std::size_t>(deed)].store(true); }

  /// Reports an error, with the present errno, and ends the test. Also for forked children
  /// of programs with threads.
  [[gnu::format(printf, 2, 3)]] void fail(const char* format, ...) {
    const int error = errno;
    ++failures;
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    (void)std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char line[450];
    const int length = std::snprintf(line, sizeof line, "%s (errno %d)\n", text, error);
    (void)!::write(STDERR_FILENO, line, static_cast<std::size_t>(length));
  }
  [[nodiscard]] bool is_over() const { return failures.load() != 0; }
};

}  // namespace verbatim::testing
