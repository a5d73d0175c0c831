// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "rehome/folder_reader.h"
#include "rehome/system_call.h"

/// The threads of this process in /proc/self/task. Nothing here allocates.
namespace verbatim::rehome {

using TaskFile = std::array<char, 256>;

/// The contents of a file of /proc/self/task/TASK, such as "/syscall"; empty when it cannot be
/// read.
inline std::string_view read_task_file(const char* task, std::string_view file,
                                       TaskFile& text) noexcept {
  constexpr std::string_view kFolder = "/proc/self/task/";
  std::array<char, 64> path{};
  const std::string_view name(task);
  if (kFolder.size() + name.size() + file.size() >= path.size()) return {};
  char* at = std::ranges::copy(kFolder, path.data()).out;
  at = std::ranges::copy(name, at).out;
  std::ranges::copy(file, at);
  const kernel::Descriptor opened(kernel::open_file(path.data(), O_RDONLY));
  if (!opened.is_open()) return {};
  const long octets = kernel::call(SYS_read, opened.number(), text.data(), text.size());
  return octets > 0 ? std::string_view(text.data(), static_cast<std::size_t>(octets))
                    : std::string_view();
}

/// How many threads there are. The link count of the folder is 2 plus the number of threads.
inline std::size_t count_tasks() noexcept {
  constexpr std::size_t kOtherLinks = 2;
  struct stat state {};
  if (::stat("/proc/self/task", &state) != 0 || state.st_nlink < kOtherLinks) return 0;
  return state.st_nlink - kOtherLinks;
}

/// Calls `visit(name)` for each thread, for some of them twice. The kernel ends a listing too early
/// when the thread at its position ends, so the listing is repeated when threads are missing.
template <typename Visit>
void for_each_task(Visit&& visit) noexcept {
  constexpr int kListingsMax = 8;
  for (int listings = 0; listings < kListingsMax; ++listings) {
    std::size_t seen = 0;
    (void)for_each_entry("/proc/self/task", [&](const char* task) {
      if (*task == '.') return true;
      ++seen;
      visit(task);
      return true;
    });
    if (seen >= count_tasks()) return;
  }
}

}  // namespace verbatim::rehome
