// SPDX-License-Identifier: Apache-2.0
// libverbatim-preload.so: it redirects paths below /sys/class/infiniband, and those of the devices
// in /dev/infiniband, to the folder that VERBATIM_SYSFS names, which `verbatim run` has filled.
// Programs that look there for adapters, or check whether /dev/infiniband/uverbs0 can be opened,
// find them. No other path changes, and none where the variable is not set. Children inherit the
// library. It starts no thread, opens nothing and allocates nothing.
//
// glibc's functions do not call each other through this library, so each function that takes a path
// is wrapped separately. Older programs call the names with two underscores.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>

#include "abi/border.h"
#include "base/environment.h"

namespace {

/// What follows `folder` in a path that begins with it and goes on with `name`; else null.
const char* inside(const char* path, const char* folder, const char* name) noexcept {
  const size_t skipped = strlen(folder);
  if (strncmp(path, folder, skipped) != 0) return nullptr;
  const size_t named = strlen(name);
  return strncmp(path + skipped, name, named) == 0 ? path + skipped : nullptr;
}

/// The path to use instead: the same one, or its counterpart in the folder.
class Path {
 public:
  explicit Path(const char* path) noexcept : path_(path) {
    if (path == nullptr) return;
    if (const char* attribute = inside(path, "/sys/class", "/infiniband")) {
      const char next = attribute[sizeof "/infiniband" - 1];
      // Also infiniband_verbs and its like.
      if (next == 0 || next == '/' || next == '_') lead_to(attribute);
    } else if (const char* node = inside(path, "/dev/infiniband", "/uverbs")) {
      lead_to(node);
    }
  }
  [[nodiscard]] const char* get() const noexcept { return path_; }

 private:
  void lead_to(const char* rest) noexcept {
    const char* folder = verbatim::environment_variable("VERBATIM_SYSFS");
    if (folder == nullptr || *folder != '/') return;
    const int length = snprintf(room_, sizeof room_, "%s%s", folder, rest);
    if (length > 0 && static_cast<size_t>(length) < sizeof room_) path_ = room_;
  }

  const char* path_;
  char room_[4096];
};

/// The function that would be called without this library; `found` keeps it. It is not a static
/// variable with a guard: another thread may hold the guard while the program forks, and the child
/// would wait for it.
template <typename Function>
Function* next(std::atomic<void*>& found, const char* name) noexcept {
  void* function = found.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = dlsym(RTLD_NEXT, name);
    found.store(function, std::memory_order_relaxed);
  }
  return reinterpret_cast<Function*>(function);
}

mode_t mode_in(int flags, va_list arguments) noexcept {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? static_cast<mode_t>(va_arg(arguments, unsigned)) : 0;
}

}  // namespace

#define VB_NEXT(name)                                 \
  static constinit std::atomic<void*> found{nullptr}; \
  auto* const real = next<decltype(name)>(found, #name)

extern "C" {

#define VB_OPEN(name)                                    \
  VB_EXPORT int name(const char* path, int flags, ...) { \
    VB_NEXT(name);                                       \
    va_list arguments;                                   \
    va_start(arguments, flags);                          \
    const mode_t mode = mode_in(flags, arguments);       \
    va_end(arguments);                                   \
    return real(Path(path).get(), flags, mode);          \
  }
VB_OPEN(open)
VB_OPEN(open64)

#define VB_OPENAT(name)                                              \
  VB_EXPORT int name(int folder, const char* path, int flags, ...) { \
    VB_NEXT(name);                                                   \
    va_list arguments;                                               \
    va_start(arguments, flags);                                      \
    const mode_t mode = mode_in(flags, arguments);                   \
    va_end(arguments);                                               \
    return real(folder, Path(path).get(), flags, mode);              \
  }
VB_OPENAT(openat)
VB_OPENAT(openat64)

VB_EXPORT FILE* fopen(const char* path, const char* mode) {
  VB_NEXT(fopen);
  return real(Path(path).get(), mode);
}
VB_EXPORT FILE* fopen64(const char* path, const char* mode) {
  VB_NEXT(fopen64);
  return real(Path(path).get(), mode);
}

VB_EXPORT int stat(const char* path, struct stat* to) noexcept {
  VB_NEXT(stat);
  return real(Path(path).get(), to);
}
VB_EXPORT int lstat(const char* path, struct stat* to) noexcept {
  VB_NEXT(lstat);
  return real(Path(path).get(), to);
}
VB_EXPORT int fstatat(int folder, const char* path, struct stat* to, int flags) noexcept {
  VB_NEXT(fstatat);
  return real(folder, Path(path).get(), to, flags);
}
VB_EXPORT int stat64(const char* path, struct stat64* to) noexcept {
  VB_NEXT(stat64);
  return real(Path(path).get(), to);
}
VB_EXPORT int lstat64(const char* path, struct stat64* to) noexcept {
  VB_NEXT(lstat64);
  return real(Path(path).get(), to);
}
VB_EXPORT int fstatat64(int folder, const char* path, struct stat64* to, int flags) noexcept {
  VB_NEXT(fstatat64);
  return real(folder, Path(path).get(), to, flags);
}
VB_EXPORT int statx(int folder, const char* path, int flags, unsigned mask,
                    struct statx* to) noexcept {
  VB_NEXT(statx);
  return real(folder, Path(path).get(), flags, mask, to);
}

#define VB_OLD_STAT(name, type)                                 \
  VB_EXPORT int name(int version, const char* path, type* to);  \
  VB_EXPORT int name(int version, const char* path, type* to) { \
    VB_NEXT(name);                                              \
    return real(version, Path(path).get(), to);                 \
  }
VB_OLD_STAT(__xstat, struct stat)
VB_OLD_STAT(__lxstat, struct stat)
VB_OLD_STAT(__xstat64, struct stat64)
VB_OLD_STAT(__lxstat64, struct stat64)

VB_EXPORT int access(const char* path, int mode) noexcept {
  VB_NEXT(access);
  return real(Path(path).get(), mode);
}
VB_EXPORT int faccessat(int folder, const char* path, int mode, int flags) noexcept {
  VB_NEXT(faccessat);
  return real(folder, Path(path).get(), mode, flags);
}
VB_EXPORT int euidaccess(const char* path, int mode) noexcept {
  VB_NEXT(euidaccess);
  return real(Path(path).get(), mode);
}

VB_EXPORT ssize_t readlink(const char* path, char* to, size_t octets) noexcept {
  VB_NEXT(readlink);
  return real(Path(path).get(), to, octets);
}
VB_EXPORT ssize_t readlinkat(int folder, const char* path, char* to, size_t octets) noexcept {
  VB_NEXT(readlinkat);
  return real(folder, Path(path).get(), to, octets);
}
VB_EXPORT char* realpath(const char* path, char* to) noexcept {
  // x86-64 has two functions of this name. Before glibc 2.36 the lookup finds the older one, which
  // needs a buffer for the result.
  if (to == nullptr) return canonicalize_file_name(Path(path).get());
  VB_NEXT(realpath);
  return real(Path(path).get(), to);
}

VB_EXPORT ssize_t getxattr(const char* path, const char* name, void* to, size_t octets) noexcept {
  VB_NEXT(getxattr);
  return real(Path(path).get(), name, to, octets);
}
VB_EXPORT ssize_t lgetxattr(const char* path, const char* name, void* to, size_t octets) noexcept {
  VB_NEXT(lgetxattr);
  return real(Path(path).get(), name, to, octets);
}

VB_EXPORT DIR* opendir(const char* path) {
  VB_NEXT(opendir);
  return real(Path(path).get());
}
VB_EXPORT int scandir(const char* path, dirent*** list, int (*filter)(const dirent*),
                      int (*compare)(const dirent**, const dirent**)) {
  VB_NEXT(scandir);
  return real(Path(path).get(), list, filter, compare);
}
VB_EXPORT int scandir64(const char* path, dirent64*** list, int (*filter)(const dirent64*),
                        int (*compare)(const dirent64**, const dirent64**)) {
  VB_NEXT(scandir64);
  return real(Path(path).get(), list, filter, compare);
}
VB_EXPORT int chdir(const char* path) noexcept {
  VB_NEXT(chdir);
  return real(Path(path).get());
}

}  // extern "C"
