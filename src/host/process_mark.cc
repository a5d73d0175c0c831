// SPDX-License-Identifier: Apache-2.0
#include "host/process_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "host/uncancellable.h"

namespace verbatim::host {

namespace {

/// What is used of /proc/PID/stat.
struct Entry {
  char state = 0;  // of the first thread
  std::uint64_t threads = 0;
  std::uint64_t began = 0;
};

/// The third field of /proc/PID/stat is the state, the 20th the number of threads, the 22nd the
/// beginning. The second one is the name in parentheses, which may contain any octet.
std::optional<Entry> parse(std::string_view text) noexcept {
  const std::size_t name_end = text.rfind(')');
  if (name_end == text.npos || name_end + 2 >= text.size()) return std::nullopt;
  text.remove_prefix(name_end + 2);
  const char state = text.front();
  const auto skip = [&](int fields) {
    for (int i = 0; i < fields; ++i) {
      text.remove_prefix(std::min(text.find(' '), text.size() - 1) + 1);
    }
    return text.empty() ? 0 : std::strtoull(text.data(), nullptr, 10);
  };
  constexpr int kFromStateToThreads = 17;
  const std::uint64_t threads = skip(kFromStateToThreads);
  const std::uint64_t began = skip(2);
  if (text.empty()) return std::nullopt;
  return Entry{.state = state, .threads = threads, .began = began};
}

/// Nothing when it cannot be read; errno says why.
std::optional<Entry> read_entry(pid_t number) noexcept {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", static_cast<int>(number));
  const auto file =
      static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path.data(), O_RDONLY | O_CLOEXEC, 0));
  if (file < 0) return std::nullopt;
  std::array<char, 1024> text{};
  const long octets = ::syscall(SYS_read, file, text.data(), text.size() - 1);
  const int error = errno;
  (void)::syscall(SYS_close, file);
  errno = error;
  if (octets <= 0) return std::nullopt;
  return parse(text.data());
}

}  // namespace

ProcessMark ProcessMark::of(pid_t number) noexcept {
  ProcessMark mark;
  if (number <= 0) return mark;
  mark.number_ = number;
  if (const auto entry = read_entry(number)) mark.began_ = entry->began;
  return mark;
}

bool ProcessMark::has_ended() const noexcept {
  if (!exists()) return true;
  if (const auto entry = read_entry(number_)) {
    if (began_ != 0 && entry->began != began_) return true;
    // The first thread may have ended before the others. Its state is that of a dead process then.
    return (entry->state == 'Z' || entry->state == 'X') && entry->threads <= 1;
  }
  return ::kill(number_, 0) != 0 && errno == ESRCH;
}

}  // namespace verbatim::host
