// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <type_traits>

/// The kernel, asked directly: UCX, libfabric and Open MPI put functions of their own in place of
/// mmap(2) and munmap(2), and those must not see what is done here.
namespace verbatim::rehome::kernel {

template <typename Argument>
long as_register(Argument argument) noexcept {
  if constexpr (std::is_pointer_v<Argument>) {
    return std::bit_cast<long>(argument);
  } else {
    return static_cast<long>(argument);
  }
}

/// What the kernel answered, or a negative errno value. The caller's errno stays as it was.
template <typename... Arguments>
long call(long number, Arguments... arguments) noexcept {
  const int saved = errno;
  long answer = ::syscall(number, as_register(arguments)...);
  if (answer == -1) answer = -errno;
  errno = saved;
  return answer;
}

/// The kernel's addresses end far below the numbers that mean failure.
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

/// Puts the pages of `from` at `to`, in one step that no other thread can see half done.
[[nodiscard]] inline long move(std::uintptr_t from, std::uintptr_t to, std::size_t octets,
                               int more_flags = 0) noexcept {
  return call(SYS_mremap, from, octets, octets, MREMAP_MAYMOVE | MREMAP_FIXED | more_flags, to);
}

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
  void close() noexcept {
    if (number_ >= 0) (void)call(SYS_close, number_);
    number_ = -EBADF;
  }
  /// Somebody else closes it from now on.
  [[nodiscard]] int release() noexcept {
    const int number = static_cast<int>(number_);
    number_ = -EBADF;
    return number;
  }
  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
  [[nodiscard]] int number() const noexcept { return static_cast<int>(number_); }
  [[nodiscard]] long answer() const noexcept { return number_; }

 private:
  long number_;  // or a negative errno value
};

[[nodiscard]] inline long open_file(const char* path, int flags) noexcept {
  return call(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0);
}

}  // namespace verbatim::rehome::kernel
