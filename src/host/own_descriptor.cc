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

// An eventfd and an epoll have no inode of their own. Those of the library are marked by the signal
// that would be sent for input (F_SETSIG). These two kinds of files never send one, so a program
// has no reason to set it.
constexpr int kMark = 59;

// Which object has a number: the library may get a number again that the program has closed while
// another object had it. Numbers beyond the table are not checked.
struct Place {
  std::atomic<std::uint32_t> holder{0};  // 0: none
  std::atomic<bool> is_hidden{false};    // from the program
  std::atomic<dev_t> device{0};
  std::atomic<ino_t> inode{0};  // 0: anonymous, as in the object
};
constexpr std::size_t kTableNumbers = 1U << 16;
constinit std::array<Place, kTableNumbers> g_places{};
constinit std::atomic<std::size_t> g_places_used{0};  // later places have never had a holder
constinit std::atomic<std::uint32_t> g_next_holder{1};

Place* place_of(int number) noexcept {
  const auto index = static_cast<std::size_t>(number);
  return index < kTableNumbers ? &g_places[index] : nullptr;
}

/// Whether a number refers to that file.
bool is_file(int number, dev_t device, ino_t inode) noexcept {
  if (inode == 0) return ::fcntl(number, F_GETSIG) == kMark;
  struct stat state {};
  return ::fstat(number, &state) == 0 && state.st_ino == inode && state.st_dev == device;
}

/// Not close(3), at which a thread can be cancelled. The thread sanitizer must see the call all the
/// same: otherwise it takes a reused number for the old descriptor.
void close_number(int descriptor) noexcept {
#if VB_THREAD_SANITIZER
  (void)::close(descriptor);
#else
  (void)::syscall(SYS_close, descriptor);
#endif
}

/// Moves a descriptor away from the program's own: above the numbers that select() can use, or else
/// to the upper half of the numbers that the process may have.
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

/// Keeps errno as it is.
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
  remember(Number::kHidden);
}

OwnDescriptor OwnDescriptor::in_place(int number) noexcept {
  const Quietly quietly;
  OwnDescriptor own;
  own.number_ = number;
  if (number >= 0) own.remember(Number::kGiven);
  return own;
}

void OwnDescriptor::remember(Number number) noexcept {
  holder_ = g_next_holder.fetch_add(1, std::memory_order_relaxed);
  struct stat state {};
  if (::fstat(number_, &state) == 0 && (state.st_mode & S_IFMT) != 0) {
    device_ = state.st_dev;
    inode_ = state.st_ino;
  } else {
    (void)::fcntl(number_, F_SETSIG, kMark);
  }
  Place* const place = place_of(number_);
  if (place == nullptr) return;
  place->is_hidden.store(number == Number::kHidden, std::memory_order_relaxed);
  place->device.store(device_, std::memory_order_relaxed);
  place->inode.store(inode_, std::memory_order_relaxed);
  place->holder.store(holder_, std::memory_order_release);
  const std::size_t needed = static_cast<std::size_t>(number_) + 1;
  std::size_t used = g_places_used.load(std::memory_order_relaxed);
  while (used < needed && !g_places_used.compare_exchange_weak(used, needed)) {
  }
}

/// Only if no other object has the place since.
void OwnDescriptor::forget() noexcept {
  std::uint32_t own = holder_;
  if (Place* const place = place_of(number_)) {
    (void)place->holder.compare_exchange_strong(own, 0, std::memory_order_relaxed);
  }
}

bool OwnDescriptor::is_still_own() const noexcept {
  if (number_ < 0) return false;
  const Place* const place = place_of(number_);
  if (place != nullptr && place->holder.load(std::memory_order_relaxed) != holder_) return false;
  const Quietly quietly;
  return is_file(number_, device_, inode_);
}

int OwnDescriptor::release() noexcept {
  if (number_ >= 0) forget();
  return std::exchange(number_, -1);
}

void OwnDescriptor::close() noexcept {
  if (number_ < 0) return;
  const Quietly quietly;
  const bool is_own = is_still_own();
  forget();  // before another object can get the number
  if (is_own) close_number(number_);
  number_ = -1;
}

void OwnDescriptor::close_all_in_child() noexcept {
  const Quietly quietly;
  const std::size_t used = g_places_used.load(std::memory_order_relaxed);
  for (std::size_t number = 0; number < used; ++number) {
    Place& place = g_places[number];
    if (place.holder.load(std::memory_order_acquire) == 0 || !place.is_hidden.load()) continue;
    place.holder.store(0, std::memory_order_relaxed);
    const auto descriptor = static_cast<int>(number);
    if (is_file(descriptor, place.device.load(), place.inode.load())) close_number(descriptor);
  }
}

}  // namespace verbatim::host
