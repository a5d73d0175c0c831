// SPDX-License-Identifier: Apache-2.0
#include "host/unix_name.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

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

/// A name whose socket is closed counts as no name, so both give the same error.
int with_one_reason(int result) noexcept {
  if (result < 0 && errno == ENOENT) errno = ECONNREFUSED;
  return result;
}

/// A socket of another type refuses with EPROTOTYPE, and its process does not notice the attempt.
bool is_held(const Address& address) noexcept {
  const int probe = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return true;  // unknown
  const bool is_free = ::connect(probe, &address.base, address.octets) != 0 &&
                       (errno == ECONNREFUSED || errno == ENOENT);
  ::close(probe);
  return !is_free;
}

/// Held by the one process that takes over or removes names of ended processes. Without it, another
/// process could bind such a name between the check and the removal.
class TakeOver {
 public:
  explicit TakeOver(const std::string& directory) noexcept {
    for (int tries = 0; !has_lock_ && tries < kLockTries; ++tries) {
      if (tries > 0) (void)::poll(nullptr, 0, 1);
      close();
      file_ = ::open((directory + "/" + kFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                     0600);
      if (file_ < 0) return;
      struct stat about {};
      // The file may have been removed since it was opened; other processes then lock a new file.
      has_lock_ = set(F_WRLCK) && ::fstat(file_, &about) == 0 && about.st_nlink > 0;
    }
  }
  TakeOver(const TakeOver&) = delete;
  TakeOver& operator=(const TakeOver&) = delete;
  ~TakeOver() { close(); }
  [[nodiscard]] bool has_lock() const noexcept { return has_lock_; }

  static constexpr const char* kFile = "names.lock";

 private:
  void close() noexcept {
    if (file_ < 0) return;
    (void)set(F_UNLCK);  // a forked child may have a copy of the descriptor
    ::close(std::exchange(file_, -1));
  }
  [[nodiscard]] bool set(short type) const noexcept {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    return ::fcntl(file_, F_OFD_SETLK, &lock) == 0;
  }

  int file_ = -1;
  bool has_lock_ = false;
};

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

/// The caller holds the TakeOver. A regular file is no socket, and so no name.
void remove_names(const std::string& directory, bool with_files) {
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir(directory.c_str()));
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    const std::string path = directory + "/" + entry->d_name;
    struct stat about {};
    if (::lstat(path.c_str(), &about) != 0) continue;
    Address address;
    if (S_ISSOCK(about.st_mode) && path.size() < sizeof address.un.sun_path) {
      std::memcpy(address.un.sun_path, path.data(), path.size());
      address.octets = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
      if (!is_held(address)) (void)::unlink(path.c_str());
    } else if (with_files && S_ISREG(about.st_mode)) {
      (void)::unlink(path.c_str());
    }
  }
}

}  // namespace

int UnixName::bind_beside(int named_socket, int socket) const noexcept {
  const auto address = address_of(text(), named_socket);
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
  const TakeOver take_over(address->directory->path());
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

void UnixName::remove_unused_in(const std::string& directory) noexcept {
  const TakeOver take_over(directory);
  if (take_over.has_lock()) remove_names(directory, false);
}

void UnixName::remove_all_unused_in(const std::string& directory) noexcept {
  const TakeOver take_over(directory);
  if (take_over.has_lock()) remove_names(directory, true);
}

}  // namespace verbatim::host
