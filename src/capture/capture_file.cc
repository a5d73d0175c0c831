// SPDX-License-Identifier: Apache-2.0
#include "capture/capture_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace verbatim::link {
namespace {

constexpr mode_t kMode = 0644;  // before the umask

/// A descriptor that is closed unless it is released.
class Opened {
 public:
  explicit Opened(int descriptor) noexcept : descriptor_(descriptor) {}
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] int release() noexcept { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

Errc refuse(std::string& message, const std::string& name, int error) {
  if (error == EBUSY) {
    message = "cannot write the capture '" + name +
              "': another process is writing it; choose another name, or one with %p in it";
    return Errc::kBusy;
  }
  message = "cannot write the capture '" + name + "': " + std::strerror(error);
  if (error == ENXIO) message += " (no process reads the pipe; start the reader first)";
  if (error == ENOENT) message += " (is its folder there?)";
  if (error == ELOOP) message += " (it is a symbolic link; name the file that it points to)";
  return error == EACCES || error == EPERM || error == EROFS ? Errc::kAccessDenied
                                                             : Errc::kInvalidArgument;
}

/// Opens the file; returns the descriptor, or a negative errno value.
///
/// The file is opened without blocking, so that a pipe without a reader is refused and does not
/// stop the program. A symbolic link may belong to another user, so it is not followed, except to a
/// device or a pipe (/dev/stdout).
int open_for_writing(const std::string& name) noexcept {
  constexpr int kFlags = O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  const int file = ::open(name.c_str(), kFlags | O_CREAT | O_NOFOLLOW, kMode);
  if (file >= 0) return file;
  if (errno != ELOOP) return -errno;
  Opened behind_link(::open(name.c_str(), kFlags));
  struct stat about {};
  const bool is_stream = behind_link.get() >= 0 && ::fstat(behind_link.get(), &about) == 0 &&
                         (S_ISCHR(about.st_mode) || S_ISFIFO(about.st_mode));
  if (is_stream) return behind_link.release();
  return -ELOOP;
}

/// Opens the file, and empties it if it is a regular one; returns the descriptor, or a negative
/// errno value. EBUSY: another process writes a capture to it.
int open_emptied(const std::string& name, bool& is_regular) noexcept {
  struct stat about {};
  if (::stat(name.c_str(), &about) == 0 && S_ISDIR(about.st_mode)) return -EISDIR;
  Opened opened(open_for_writing(name));
  if (opened.get() < 0) return opened.get();
  if (::fstat(opened.get(), &about) != 0) return -errno;
  is_regular = S_ISREG(about.st_mode);
  if (!is_regular) {
    return S_ISCHR(about.st_mode) || S_ISFIFO(about.st_mode) ? opened.release() : -EINVAL;
  }
  if (::flock(opened.get(), LOCK_EX | LOCK_NB) != 0) return -EBUSY;
  if (::ftruncate(opened.get(), 0) != 0) return -errno;
  return opened.release();
}

bool has_process_number(std::string_view pattern) {
  return expand_capture_name(pattern, 1) != expand_capture_name(pattern, 2);
}

/// Keeps signals that a write can cause away from the program, which does not know of this file.
class QuietWrites {
 public:
  QuietWrites() noexcept {
    ::sigemptyset(&caused_);
    ::sigaddset(&caused_, SIGXFSZ);
    ::sigaddset(&caused_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    had_some_ = ::sigismember(&pending, SIGXFSZ) == 1 || ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &caused_, &before_);
  }
  QuietWrites(const QuietWrites&) = delete;
  QuietWrites& operator=(const QuietWrites&) = delete;
  ~QuietWrites() {
    const timespec now{};
    while (!had_some_ && ::sigtimedwait(&caused_, nullptr, &now) > 0) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t caused_;
  sigset_t before_;
  bool had_some_ = false;  // signals of the program, which must stay pending
};

}  // namespace

std::string expand_capture_name(std::string_view pattern, pid_t process) {
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] != '%' || (next != 'p' && next != '%')) {
      name += pattern[i];
      continue;
    }
    name += next == 'p' ? std::to_string(process) : "%";
    ++i;
  }
  return name;
}

std::string capture_name_beside(std::string_view name, pid_t process) {
  const std::size_t folder = name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1;
  std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot <= folder) dot = name.size();
  return std::string(name.substr(0, dot)) + "-" + std::to_string(process) +
         std::string(name.substr(dot));
}

Expected<CaptureFile> CaptureFile::open(std::string_view pattern, std::string& message) {
  std::string name = expand_capture_name(pattern, ::getpid());
  for (const bool is_beside : {false, true}) {
    if (is_beside) name = capture_name_beside(name, ::getpid());
    Opened opened(open_for_writing(name));
    struct stat about {};
    if (opened.get() < 0) return refuse(message, name, -opened.get());
    if (::fstat(opened.get(), &about) != 0) return refuse(message, name, errno);
    const bool is_regular = S_ISREG(about.st_mode);
    if (!is_regular && !S_ISCHR(about.st_mode) && !S_ISFIFO(about.st_mode)) {
      return refuse(message, name, EINVAL);
    }
    if (is_regular) {
      const bool is_ours = ::flock(opened.get(), LOCK_EX | LOCK_NB) == 0;
      const bool may_be_overwritten = is_beside || has_process_number(pattern);
      if (!is_ours || ::fstat(opened.get(), &about) != 0) continue;
      if (about.st_size != 0 && !may_be_overwritten) continue;
      if (about.st_size != 0 && ::ftruncate(opened.get(), 0) != 0) {
        return refuse(message, name, errno);
      }
    }
    (void)::fcntl(opened.get(), F_SETFL, 0);  // writing waits for a slow reader of a pipe
    return CaptureFile(opened.release(), std::move(name), is_regular);
  }
  message = "cannot write the capture '" + name +
            "': another process is writing it, and the capture that '" + std::string(pattern) +
            "' names; choose another name, or one with %p in it";
  return Errc::kBusy;
}

Expected<CaptureFile> CaptureFile::overwrite(const std::string& name, std::string& message) {
  bool is_regular = false;
  Opened opened(open_emptied(name, is_regular));
  if (opened.get() == -EBUSY) {
    message = "cannot write the capture '" + name +
              "': another capture is being written to it; choose another name";
    return Errc::kBusy;
  }
  if (opened.get() < 0) return refuse(message, name, -opened.get());
  (void)::fcntl(opened.get(), F_SETFL, 0);  // writing waits for a slow reader of a pipe
  return CaptureFile(opened.release(), name, is_regular);
}

Status CaptureFile::prepare(std::string_view pattern, std::string& message) {
  const std::string name = expand_capture_name(pattern, ::getpid());
  struct stat about {};
  const bool was_there = ::stat(name.c_str(), &about) == 0;
  bool is_regular = false;
  const Opened opened(open_emptied(name, is_regular));
  if (opened.get() < 0) return refuse(message, name, -opened.get());
  if (is_regular && !was_there && has_process_number(pattern)) {
    (void)::unlink(name.c_str());  // of this process
  }
  return Ok{};
}

int CaptureFile::append(std::span<const std::byte> blocks) noexcept {
  if (!descriptor_.is_still_own()) return EBADF;  // the program has closed it
  const QuietWrites quiet;
  auto left = blocks;
  while (!left.empty()) {
    const ssize_t written = ::write(descriptor_.number(), left.data(), left.size());
    if (written > 0) {
      left = left.subspan(static_cast<std::size_t>(written));
      continue;
    }
    const int error = written == 0 ? ENOSPC : errno;
    if (error == EINTR) continue;
    if (is_seekable_) (void)!::ftruncate(descriptor_.number(), static_cast<off_t>(octets_));
    return error;
  }
  octets_ += blocks.size();
  return 0;
}

}  // namespace verbatim::link
