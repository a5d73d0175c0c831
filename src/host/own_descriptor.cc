// SPDX-License-Identifier: Apache-2.0
#include "host/own_descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>

namespace verbatim::host {
namespace {

constexpr rlim_t kSelectLimit = 1024;  // FD_SETSIZE: numbers that programs with select() need

// An eventfd and an epoll have no inode of their own. What tells ours from the program's is the
// signal that would be sent for input (F_SETSIG): these two kinds of files never send one, so a
// program has no reason to set it.
constexpr int kMark = 59;

// Which object has a number: the library itself may get a number again that the program has closed
// under another object. Numbers beyond the table go unchecked.
constexpr std::size_t kTableNumbers = 1U << 16;
constinit std::array<std::atomic<std::uint32_t>, kTableNumbers> g_holders{};
constinit std::atomic<std::uint32_t> g_next_holder{1};

/// close(3) is a place where threads are cancelled. The thread sanitizer must see it all the same:
/// it takes a number that is used again for the old descriptor.
void close_number(int descriptor) noexcept {
#if defined(__SANITIZE_THREAD__)
  (void)::close(descriptor);
#else
  (void)::syscall(SYS_close, descriptor);
#endif
}

/// Out of the way of the program's own descriptors: above what select() can name, or else in the
/// upper half of what the process may have.
int moved_up(int descriptor) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return descriptor;
  const rlim_t first = limit.rlim_cur >= 4 * kSelectLimit ? kSelectLimit : limit.rlim_cur / 2;
  if (static_cast<rlim_t>(descriptor) >= first) return descriptor;
  const int moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, static_cast<int>(first));
  if (moved < 0) return descriptor;
  close_number(descriptor);
  return moved;
}

/// errno stays as it is.
class Quietly {
 public:
  Quietly() noexcept = default;
  Quietly(const Quietly&) = delete;
  Quietly& operator=(const Quietly&) = delete;
  ~Quietly() { errno = errno_before_; }

 private:
  int errno_before_ = errno;
};

}  // namespace

OwnDescriptor::OwnDescriptor(int number) noexcept : number_(number) {
  if (number_ < 0) return;
  const Quietly quietly;
  number_ = moved_up(number_);
  remember();
}

OwnDescriptor OwnDescriptor::in_place(int number) noexcept {
  const Quietly quietly;
  OwnDescriptor own;
  own.number_ = number;
  if (number >= 0) own.remember();
  return own;
}

void OwnDescriptor::remember() noexcept {
  holder_ = g_next_holder.fetch_add(1, std::memory_order_relaxed);
  const auto place = static_cast<std::size_t>(number_);
  if (place < kTableNumbers) g_holders[place].store(holder_, std::memory_order_relaxed);
  struct stat state {};
  if (::fstat(number_, &state) == 0 && (state.st_mode & S_IFMT) != 0) {
    device_ = state.st_dev;
    inode_ = state.st_ino;
  } else {
    (void)::fcntl(number_, F_SETSIG, kMark);
  }
}

bool OwnDescriptor::is_still_own() const noexcept {
  if (number_ < 0) return false;
  const auto place = static_cast<std::size_t>(number_);
  if (place < kTableNumbers && g_holders[place].load(std::memory_order_relaxed) != holder_) {
    return false;
  }
  const Quietly quietly;
  if (inode_ == 0) return ::fcntl(number_, F_GETSIG) == kMark;
  struct stat state {};
  return ::fstat(number_, &state) == 0 && state.st_ino == inode_ && state.st_dev == device_;
}

void OwnDescriptor::close() noexcept {
  if (number_ < 0) return;
  const Quietly quietly;
  if (is_still_own()) close_number(number_);
  number_ = -1;
}

}  // namespace verbatim::host
