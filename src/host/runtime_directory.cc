// SPDX-License-Identifier: Apache-2.0
#include "host/runtime_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "base/environment.h"
#include "host/unix_name.h"

namespace verbatim::host {
namespace {

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

constexpr int kLockTries = 100;  // a millisecond apart
constexpr int kOpenTries = 16;   // while other processes remove what they take for unused

/// Closes what it holds.
class Descriptor {
 public:
  explicit Descriptor(int descriptor) noexcept : descriptor_(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] int release() noexcept { return std::exchange(descriptor_, -1); }
  [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

/// Zero: unknown.
std::uint64_t network_of(int socket) noexcept {
  std::uint64_t cookie = 0;
  socklen_t octets = sizeof cookie;
  if (::getsockopt(socket, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &octets) == 0) return cookie;
  struct stat about {};  // before Linux 5.14
  return ::stat("/proc/thread-self/ns/net", &about) == 0 ? about.st_ino : 0;
}

/// The owner as stat(2) says is not enough: in a user namespace every foreign user looks like one
/// and the same. To set the mode is the owner's right alone, or root's.
int open_if_own(int at, const char* path) noexcept {
  Descriptor folder(::openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about {};
  const bool is_own = folder.is_open() && ::fstat(folder.get(), &about) == 0 &&
                      about.st_uid == ::geteuid() && ::fchmod(folder.get(), 0700) == 0;
  if (!is_own && folder.is_open()) errno = EACCES;
  return is_own ? folder.release() : -1;
}

int make_own(int at, const char* path) noexcept {
  if (::mkdirat(at, path, 0700) != 0 && errno != EEXIST) return -1;
  return open_if_own(at, path);
}

/// The first of the user's directories in `base` whose names begin so; empty: none.
std::string find_own(const std::string& base, const std::string& prefix) {
  std::string found;
  const Folder folder(::opendir(base.c_str()));
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    const std::string_view name(entry->d_name);
    if (name.substr(0, prefix.size()) != prefix) continue;
    const std::string path = base + "/" + std::string(name);
    const Descriptor own(open_if_own(AT_FDCWD, path.c_str()));
    if (own.is_open() && (found.empty() || path < found)) found = path;
  }
  return found;
}

/// The user's directory below one that all users may write to; empty: none.
std::string own_directory_in(const std::string& base) {
  const std::string name = ".verbatim-" + std::to_string(::geteuid());
  const std::string plain = base + "/" + name;
  if (const Descriptor own(make_own(AT_FDCWD, plain.c_str())); own.is_open()) return plain;
  // Another user was faster. A name that it cannot guess, which this user's processes find by its
  // owner.
  if (std::string found = find_own(base, name + "-"); !found.empty()) return found;
  std::uint64_t chance = 0;
  if (::getrandom(&chance, sizeof chance, 0) != sizeof chance) return {};
  char digits[17];
  std::snprintf(digits, sizeof digits, "%.8llx", static_cast<unsigned long long>(chance >> 32));
  const std::string secret = plain + "-" + digits;
  if (const Descriptor own(make_own(AT_FDCWD, secret.c_str())); !own.is_open()) return {};
  return find_own(base, name + "-");  // of two that were made at once, the first by name
}

std::string chosen_directory() {
  if (const char* given = environment_variable("VERBATIM_DIR");
      given != nullptr && *given != '\0') {
    const Descriptor own(make_own(AT_FDCWD, given));
    return own.is_open() && std::strlen(given) <= RuntimeDirectory::kPathOctetsMax ? given
                                                                                   : std::string();
  }
  for (const char* base : {"/tmp", "/dev/shm"}) {
    if (std::string own = own_directory_in(base); !own.empty()) return own;
  }
  return {};
}

/// Removes what processes that were killed have left behind.
void clear(const std::string& path) {
  const Folder folder(::opendir(path.c_str()));
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    const std::string_view name(entry->d_name);
    if (name != "." && name != "..") UnixName::remove_if_unused(path + "/" + entry->d_name);
  }
}

/// Removes the directories of network namespaces that are gone.
void remove_unused(const std::string& parent) {
  const Folder folder(::opendir(parent.c_str()));
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    if (std::string_view(entry->d_name).substr(0, 4) != "net-") continue;
    const std::string path = parent + "/" + entry->d_name;
    const Descriptor other(open_if_own(AT_FDCWD, path.c_str()));
    if (!other.is_open() || ::flock(other.get(), LOCK_EX | LOCK_NB) != 0) continue;
    clear(path);
    (void)::rmdir(path.c_str());  // refused while there is a name in use
  }
}

/// Shared, so that other processes see that the directory is in use, and programs that clear /tmp
/// of what is old leave it alone.
void lock_shared(int descriptor, const std::string& path) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) clear(path);
  for (int tries = 0; tries < kLockTries; ++tries) {
    if (::flock(descriptor, LOCK_SH | LOCK_NB) == 0) return;
    (void)::poll(nullptr, 0, 1);
  }
}

std::atomic<const RuntimeDirectory*> g_known{nullptr};

}  // namespace

/// A socket that has a name stays where its name is, also when the process has changed its user.
const RuntimeDirectory* RuntimeDirectory::find_by_name(int socket) noexcept {
  union {
    sockaddr base;
    sockaddr_un un;
  } name{};
  socklen_t octets = sizeof name.un;
  if (::getsockname(socket, &name.base, &octets) != 0) return nullptr;
  const std::string_view path(name.un.sun_path,
                              ::strnlen(name.un.sun_path, sizeof name.un.sun_path));
  for (const auto* known = g_known.load(std::memory_order_acquire); known != nullptr;
       known = known->next_) {
    const std::string& own = known->path_;
    if (path.size() > own.size() && path[own.size()] == '/' && path.substr(0, own.size()) == own) {
      return known;
    }
  }
  return nullptr;
}

const RuntimeDirectory* RuntimeDirectory::of(int socket) noexcept {
  if (const auto* known = find_by_name(socket); known != nullptr) return known;
  const std::uint64_t network = network_of(socket);
  const uid_t user = ::geteuid();
  for (const auto* known = g_known.load(std::memory_order_acquire); known != nullptr;
       known = known->next_) {
    if (known->network_ == network && known->user_ == user) return known;
  }
  const int error = errno;
  std::string parent = chosen_directory();
  auto* made = parent.empty() ? nullptr : new (std::nothrow) RuntimeDirectory;
  if (made == nullptr) return nullptr;
  char name[32];
  std::snprintf(name, sizeof name, "/net-%llx", static_cast<unsigned long long>(network));
  made->path_ = parent + name;
  made->parent_ = std::move(parent);
  made->network_ = network;
  made->user_ = user;
  made->next_ = g_known.load(std::memory_order_relaxed);
  while (!g_known.compare_exchange_weak(made->next_, made, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  errno = error;
  return made;
}

int RuntimeDirectory::hold() const noexcept {
  for (int tries = 0; tries < kOpenTries; ++tries) {
    // A user's directory that was removed is made again.
    const Descriptor parent(make_own(AT_FDCWD, parent_.c_str()));
    if (!parent.is_open()) return -1;
    if (::mkdir(path_.c_str(), 0700) == 0) remove_unused(parent_);
    Descriptor own(make_own(AT_FDCWD, path_.c_str()));
    if (!own.is_open()) return -1;
    lock_shared(own.get(), path_);
    struct stat about {};
    if (::fstat(own.get(), &about) == 0 && about.st_nlink > 0) return own.release();
  }
  return -1;
}

std::string RuntimeDirectory::explain() {
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return "the system gives no UNIX socket; check `ulimit -n`";
  const RuntimeDirectory* found = of(socket.get());
  if (const Descriptor held(found != nullptr ? found->hold() : -1); held.is_open()) return {};
  const char* given = environment_variable("VERBATIM_DIR");
  if (given != nullptr && *given != '\0') {
    return "VERBATIM_DIR=" + std::string(given) +
           " is not a directory that this user owns, with a path of at most " +
           std::to_string(kPathOctetsMax) + " octets; name another, or unset it";
  }
  return "this user can make no directory in /tmp or /dev/shm, where the processes of one user "
         "find "
         "each other; make one of them writable, or set VERBATIM_DIR to a directory of this user";
}

}  // namespace verbatim::host
