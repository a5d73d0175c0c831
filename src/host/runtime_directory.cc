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

constexpr int kLockTries = 10'000;  // a millisecond apart
constexpr int kOpenTries = 16;      // while other processes remove directories as unused
constexpr mode_t kMode = 0700;

/// Closes its descriptor.
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

/// The node of a fabric on which this process is, as a hash; 0: on none.
constinit std::atomic<std::uint64_t> g_node{0};

/// Zero: unknown.
std::uint64_t network_of(int socket) noexcept {
  if (const std::uint64_t node = g_node.load(std::memory_order_relaxed); node != 0) return node;
  std::uint64_t cookie = 0;
  socklen_t octets = sizeof cookie;
  if (::getsockopt(socket, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &octets) == 0) return cookie;
  struct stat about {};  // before Linux 5.14
  return ::stat("/proc/thread-self/ns/net", &about) == 0 ? about.st_ino : 0;
}

/// The owner that stat(2) returns is not enough: in a user namespace all users that are not mapped
/// look the same. Only the owner, or root, can set the mode. But the mode of a directory that
/// existed before (`is_new` false) is not changed: it may be /tmp.
int open_if_own(const char* path, bool is_new = false) noexcept {
  Descriptor folder(::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about {};
  const bool is_own = folder.is_open() && ::fstat(folder.get(), &about) == 0 &&
                      about.st_uid == ::geteuid() && (is_new || (about.st_mode & 07777) == kMode) &&
                      ::fchmod(folder.get(), kMode) == 0;
  if (!is_own && folder.is_open()) errno = EACCES;
  return is_own ? folder.release() : -1;
}

int make_own(const char* path) noexcept {
  const bool is_new = ::mkdir(path, kMode) == 0;
  if (!is_new && errno != EEXIST) return -1;
  return open_if_own(path, is_new);
}

bool lacks_descriptors(int error) noexcept { return error == EMFILE || error == ENFILE; }

/// When a file was made, in nanoseconds; 0 where the file system does not record it.
std::uint64_t birth_of(int file) noexcept {
  struct statx about {};
  const bool is_known =
      ::statx(file, "", AT_EMPTY_PATH, STATX_BTIME, &about) == 0 && (about.stx_mask & STATX_BTIME);
  return is_known ? static_cast<std::uint64_t>(about.stx_btime.tv_sec) * 1'000'000'000 +
                        about.stx_btime.tv_nsec
                  : 0;
}

/// The oldest of the user's directories in `base` whose names begin with `prefix`; empty: none.
std::string find_own(const std::string& base, const std::string& prefix) {
  std::string found;
  std::uint64_t birth = 0;
  const Folder folder(::opendir(base.c_str()));
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    const std::string_view name(entry->d_name);
    if (name.substr(0, prefix.size()) != prefix) continue;
    const std::string path = base + "/" + std::string(name);
    const Descriptor own(open_if_own(path.c_str()));
    if (!own.is_open()) continue;
    const std::uint64_t its_birth = birth_of(own.get());
    const bool is_before = its_birth != birth ? its_birth < birth : path < found;
    if (!found.empty() && !is_before) continue;
    found = path;
    birth = its_birth;
  }
  return found;
}

/// The user's directory in one that all users may write to; empty: none.
///
/// If another user has taken the plain name, a name with random letters is used. The processes of
/// this user find it by its owner. As long as it exists, the plain name is not used, also when the
/// other user has removed it: the running processes are in the directory with the random name.
std::string own_directory_in(const std::string& base) {
  const std::string name = ".verbatim-" + std::to_string(::geteuid());
  const std::string plain = base + "/" + name;
  if (std::string found = find_own(base, name + "-"); !found.empty()) return found;
  if (const Descriptor own(make_own(plain.c_str())); own.is_open()) return plain;
  // Without descriptors nothing is known about the plain name: the processes of this user that run
  // may use it, and a directory with another name would keep them from new ones.
  if (lacks_descriptors(errno)) return {};
  std::uint64_t chance = 0;
  if (::getrandom(&chance, sizeof chance, 0) != sizeof chance) return {};
  char digits[17];
  std::snprintf(digits, sizeof digits, "%.8llx", static_cast<unsigned long long>(chance >> 32));
  const std::string secret = plain + "-" + digits;
  if (const Descriptor own(make_own(secret.c_str())); !own.is_open()) return {};
  std::string found = find_own(base, name + "-");  // if two were made at once, the older one
  if (found != secret) (void)::rmdir(secret.c_str());
  return found;
}

std::string chosen_directory() {
  if (const char* given = environment_variable("VERBATIM_DIR");
      given != nullptr && *given != '\0') {
    const Descriptor own(make_own(given));
    return own.is_open() && std::strlen(given) <= RuntimeDirectory::kPathOctetsMax ? given
                                                                                   : std::string();
  }
  errno = 0;
  for (const char* base : {"/tmp", "/dev/shm"}) {
    if (std::string own = own_directory_in(base); !own.empty()) return own;
    if (lacks_descriptors(errno)) break;
  }
  return {};
}

/// Removes the directories of network namespaces and of nodes of fabrics that are gone.
void remove_unused(const std::string& parent) {
  const Folder folder(::opendir(parent.c_str()));
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    const std::string_view name(entry->d_name);
    if (!name.starts_with("net-") && !name.starts_with("node-")) continue;
    const std::string path = parent + "/" + entry->d_name;
    const Descriptor other(open_if_own(path.c_str()));
    if (!other.is_open() || ::flock(other.get(), LOCK_EX | LOCK_NB) != 0) continue;
    UnixName::remove_all_unused_in(path);
    (void)::rmdir(path.c_str());  // fails while it contains a name in use
  }
}

/// Takes a shared lock, so that other processes see that the directory is in use, and programs that
/// remove old files from /tmp leave it alone. The first process that uses it removes the names that
/// killed processes have left. False when another process keeps it locked exclusively.
bool lock_shared(int descriptor, const std::string& path) {
  const bool is_first = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  for (int tries = 0; tries < kLockTries; ++tries) {
    if (tries > 0) (void)::poll(nullptr, 0, 1);
    if (::flock(descriptor, LOCK_SH | LOCK_NB) != 0) continue;
    if (is_first) UnixName::remove_unused_in(path);
    return true;
  }
  return false;
}

std::atomic<const RuntimeDirectory*> g_known{nullptr};

}  // namespace

/// A named socket belongs to the directory of its name, also when the process has changed its user.
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
  const char* const kind = g_node.load(std::memory_order_relaxed) != 0 ? "/node" : "/net";
  std::snprintf(name, sizeof name, "%s-%llx", kind, static_cast<unsigned long long>(network));
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

void RuntimeDirectory::enter(const std::string& fabric_folder, std::uint32_t node) noexcept {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;  // FNV-1a
  const auto add = [&](unsigned octet) { hash = (hash ^ octet) * 0x0000'0100'0000'01b3; };
  for (const char each : fabric_folder) add(static_cast<unsigned char>(each));
  for (int shift = 0; shift < 32; shift += 8) add(node >> shift & 0xff);
  g_node.store(hash, std::memory_order_relaxed);
}

int RuntimeDirectory::hold() const noexcept {
  for (int tries = 0; tries < kOpenTries; ++tries) {
    // If the user's directory was removed, it is made again.
    const Descriptor parent(make_own(parent_.c_str()));
    if (!parent.is_open()) return -1;
    if (::mkdir(path_.c_str(), kMode) == 0) remove_unused(parent_);  // perhaps this one as well
    Descriptor own(make_own(path_.c_str()));
    if (!own.is_open() && errno == ENOENT) continue;  // removed meanwhile
    if (!own.is_open() || !lock_shared(own.get(), path_)) return -1;
    struct stat about {};
    if (::fstat(own.get(), &about) == 0 && about.st_nlink > 0) return own.release();
  }
  return -1;
}

std::string RuntimeDirectory::explain() {
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open())
    return "the system gives no UNIX socket; check `ulimit -n`, and that a sandbox allows AF_UNIX";
  const RuntimeDirectory* found = of(socket.get());
  errno = 0;
  if (const Descriptor held(found != nullptr ? found->hold() : -1); held.is_open()) return {};
  if (lacks_descriptors(errno) || !Descriptor(::open("/", O_PATH | O_CLOEXEC)).is_open()) {
    return "no descriptor is left to open the directory where the processes of this user find each "
           "other; raise `ulimit -n`";
  }
  const char* given = environment_variable("VERBATIM_DIR");
  if (given != nullptr && *given != '\0') {
    return "VERBATIM_DIR=" + std::string(given) +
           " is not a directory that this user owns, with mode 0700 (no access for others) and a "
           "path of at most " +
           std::to_string(kPathOctetsMax) +
           " octets; name one that does not exist yet (it is made), or unset the variable";
  }
  if (found != nullptr) {
    return found->path() +
           ", where the processes of this user find each other, cannot be used: it has lost its "
           "owner or its mode 0700, or a process that is stopped keeps it locked (`fuser` names "
           "it)";
  }
  return "this user can make no directory in /tmp or /dev/shm, where the processes of one user "
         "find "
         "each other; make one of them writable, or set VERBATIM_DIR to a directory of this user";
}

}  // namespace verbatim::host
