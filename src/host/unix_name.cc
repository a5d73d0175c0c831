// SPDX-License-Identifier: Apache-2.0
#include "host/unix_name.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "host/runtime_directory.h"

namespace verbatim::host {
namespace {

constexpr int kLockTries = 100;  // a millisecond apart

struct Address {
  union {
    sockaddr base;
    sockaddr_un un;
  };
  socklen_t octets = 0;
  const RuntimeDirectory* directory = nullptr;

  Address() noexcept : un{} { un.sun_family = AF_UNIX; }
};

std::optional<Address> address_of(std::string_view name, int socket) noexcept {
  Address address;
  address.directory = RuntimeDirectory::of(socket);
  if (address.directory == nullptr) {
    errno = EACCES;
    return std::nullopt;
  }
  const std::string& path = address.directory->path();
  const std::size_t length = path.size() + 1 + name.size();
  if (length >= sizeof address.un.sun_path) {
    errno = ENAMETOOLONG;
    return std::nullopt;
  }
  char* at = address.un.sun_path;
  std::memcpy(at, path.data(), path.size());
  at[path.size()] = '/';
  std::memcpy(at + path.size() + 1, name.data(), name.size());
  address.octets = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length + 1);
  return address;
}

/// A name whose socket is closed is as good as no name.
int with_one_reason(int result) noexcept {
  if (result < 0 && errno == ENOENT) errno = ECONNREFUSED;
  return result;
}

/// A socket of another type answers as well, with EPROTOTYPE, and does not notice it.
bool is_held(const Address& address) noexcept {
  const int probe = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return true;  // unknown
  const bool is_free = ::connect(probe, &address.base, address.octets) != 0 &&
                       (errno == ECONNREFUSED || errno == ENOENT);
  ::close(probe);
  return !is_free;
}

/// Held by the one process that takes over names of dead ones.
class TakeOver {
 public:
  explicit TakeOver(const RuntimeDirectory& directory) noexcept
      : file_(::open((directory.path() + "/names.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC,
                     0600)) {
    for (int tries = 0; file_ >= 0 && !has_lock_ && tries < kLockTries; ++tries) {
      if (tries > 0) (void)::poll(nullptr, 0, 1);
      has_lock_ = set(F_WRLCK);
    }
  }
  TakeOver(const TakeOver&) = delete;
  TakeOver& operator=(const TakeOver&) = delete;
  ~TakeOver() {
    if (has_lock_) (void)set(F_UNLCK);  // a forked child may have a copy of the descriptor
    if (file_ >= 0) ::close(file_);
  }
  [[nodiscard]] bool has_lock() const noexcept { return has_lock_; }

 private:
  [[nodiscard]] bool set(short type) const noexcept {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    return ::fcntl(file_, F_OFD_SETLK, &lock) == 0;
  }

  int file_;
  bool has_lock_ = false;
};

}  // namespace

int UnixName::bind(int socket) const noexcept {
  const auto address = address_of(text(), socket);
  if (!address) return -1;
  if (::bind(socket, &address->base, address->octets) == 0) return 0;
  if (errno == ENOENT) {  // the first name in that directory
    const int directory = address->directory->hold();
    const int result = ::bind(socket, &address->base, address->octets);
    if (directory >= 0) ::close(directory);
    return result;
  }
  if (errno != EADDRINUSE) return -1;
  if (is_held(*address)) {
    errno = EADDRINUSE;
    return -1;
  }
  const TakeOver take_over(*address->directory);
  if (!take_over.has_lock() || is_held(*address)) {  // another process was faster
    errno = EADDRINUSE;
    return -1;
  }
  (void)::unlink(address->un.sun_path);
  return ::bind(socket, &address->base, address->octets);
}

int UnixName::connect(int socket) const noexcept {
  const auto address = address_of(text(), socket);
  return address ? with_one_reason(::connect(socket, &address->base, address->octets)) : -1;
}

ssize_t UnixName::send(int socket, std::span<const std::byte> octets) const noexcept {
  const auto address = address_of(text(), socket);
  if (!address) return -1;
  ssize_t sent = -1;
  do {
    sent = ::sendto(socket, octets.data(), octets.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                    &address->base, address->octets);
  } while (sent < 0 && errno == EINTR);
  (void)with_one_reason(static_cast<int>(sent));
  return sent;
}

bool UnixName::is_held_beside(int socket) const noexcept {
  const auto address = address_of(text(), socket);
  return address && is_held(*address);
}

void UnixName::remove(int socket) noexcept {
  Address own;
  socklen_t octets = sizeof own.un;
  const bool has_path = ::getsockname(socket, &own.base, &octets) == 0 &&
                        octets > offsetof(sockaddr_un, sun_path) && own.un.sun_path[0] == '/';
  if (has_path) (void)::unlink(own.un.sun_path);
}

void UnixName::remove_if_unused(const std::string& path) noexcept {
  Address address;
  if (path.size() >= sizeof address.un.sun_path) return;
  std::memcpy(address.un.sun_path, path.data(), path.size());
  address.octets = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  if (!is_held(address)) (void)::unlink(path.c_str());
}

}  // namespace verbatim::host
