// SPDX-License-Identifier: Apache-2.0
#include "host/opening_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

#include "host/runtime_directory.h"

namespace verbatim::host {

namespace {

constexpr int kNapMilliseconds = 1;

bool set_lock(int file, short type) noexcept {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return ::fcntl(file, F_OFD_SETLK, &lock) == 0;
}

/// The number of the last process that locked the file, from its contents. 0: unknown.
pid_t holder_in(int file) noexcept {
  pid_t pid = 0;
  return ::pread(file, &pid, sizeof pid, 0) == sizeof pid ? pid : 0;
}

}  // namespace

Expected<OpeningLock> OpeningLock::take(Duration patience, Holder& holder) noexcept {
  using Clock = std::chrono::steady_clock;
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return Errc::kNoMemory;
  const RuntimeDirectory* directory = RuntimeDirectory::of(socket);
  ::close(socket);
  if (directory == nullptr) return Errc::kAccessDenied;
  OpeningLock lock;
  lock.directory_ = directory->hold();
  if (lock.directory_ < 0) return Errc::kAccessDenied;
  lock.file_ = ::openat(lock.directory_, "opening.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock.file_ < 0) return Errc::kAccessDenied;
  auto end = Clock::now() + patience;
  while (!set_lock(lock.file_, F_WRLCK)) {
    const pid_t before = std::exchange(holder.pid, holder_in(lock.file_));
    if (holder.pid != before) end = Clock::now() + patience;
    if (Clock::now() >= end) {
      ::close(std::exchange(lock.file_, -1));
      return Errc::kTimedOut;
    }
    (void)::poll(nullptr, 0, kNapMilliseconds);
  }
  const pid_t own = ::getpid();
  (void)!::pwrite(lock.file_, &own, sizeof own, 0);  // on failure no message can name the holder
  return lock;
}

void OpeningLock::release() noexcept {
  if (file_ >= 0) {
    (void)set_lock(file_, F_UNLCK);  // a forked child may have a copy of the descriptor
    ::close(std::exchange(file_, -1));
  }
  if (directory_ >= 0) ::close(std::exchange(directory_, -1));
}

}  // namespace verbatim::host
