// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/pointer.h"

/// System calls without libc: UCX, libfabric and Open MPI replace mmap(2) and munmap(2) of libc by
/// functions of their own, which must not see the calls of this layer.
namespace verbatim::rehome::kernel {

template <typename Argument>
long as_register(Argument argument) noexcept {
  if constexpr (std::is_pointer_v<Argument>) {
    return static_cast<long>(numeric_address(argument));
  } else {
    return static_cast<long>(argument);
  }
}

/// The result of the kernel, or a negative errno value. The caller's errno stays as it was.
template <typename... Arguments>
long call(long number, Arguments... arguments) noexcept {
  const int saved = errno;
  long answer = ::syscall(number, as_register(arguments)...);
  if (answer == -1) answer = -errno;
  errno = saved;
  return answer;
}

/// The highest address of the kernel lies far below the values that mean failure.
[[nodiscard]] inline bool failed(long answer) noexcept { return answer < 0 && answer >= -4095; }

[[nodiscard]] inline long map(std::uintptr_t at, std::size_t octets, int protection, int flags,
                              int descriptor, std::uint64_t offset) noexcept {
  return call(SYS_mmap, at, octets, protection, flags, descriptor, offset);
}

inline long unmap(std::uintptr_t at, std::size_t octets) noexcept {
  return call(SYS_munmap, at, octets);
}

[[nodiscard]] inline long advise(std::uintptr_t at, std::size_t octets, int advice) noexcept {
  return call(SYS_madvise, at, octets, advice);
}

/// Moves the mapping of `from` to `to`, in one step that no other thread can see half done.
[[nodiscard]] inline long move(std::uintptr_t from, std::uintptr_t to, std::size_t octets,
                               int more_flags = 0) noexcept {
  return call(SYS_mremap, from, octets, octets, MREMAP_MAYMOVE | MREMAP_FIXED | more_flags, to);
}

/// Descriptors that stay open are moved to this number or a higher one, away from the program's. It
/// lies within the smallest usual limit of a process.
inline constexpr int kKeptFrom = 512;

/// A descriptor that is closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(long answer) noexcept : number_(answer) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  void reset(long answer) noexcept {
    close();
    number_ = answer;
  }
  /// For a descriptor that stays open in the program's table and is no file: moves it to a high
  /// number. If the program closes it and opens another file with its number, close() does nothing:
  /// the descriptor is marked by the signal for input (F_SETSIG), which is never sent.
  void keep() noexcept {
    const long moved = call(SYS_fcntl, number_, F_DUPFD_CLOEXEC, kKeptFrom);
    if (moved >= 0) reset(moved);
    is_marked_ = call(SYS_fcntl, number_, F_SETSIG, kMark) == 0;
  }
  void close() noexcept {
    const bool is_own = !is_marked_ || call(SYS_fcntl, number_, F_GETSIG) == kMark;
    if (number_ >= 0 && is_own) (void)call(SYS_close, number_);
    number_ = -EBADF;
    is_marked_ = false;
  }
  /// From now on the caller owns and closes it.
  [[nodiscard]] int release() noexcept {
    const int number = static_cast<int>(number_);
    number_ = -EBADF;
    return number;
  }
  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
  [[nodiscard]] int number() const noexcept { return static_cast<int>(number_); }
  [[nodiscard]] long answer() const noexcept { return number_; }

 private:
  static constexpr int kMark = 58;

  long number_;  // or a negative errno value
  bool is_marked_ = false;
};

[[nodiscard]] inline long open_file(const char* path, int flags) noexcept {
  return call(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0);
}

}  // namespace verbatim::rehome::kernel
