// SPDX-License-Identifier: Apache-2.0
#include "rehome/changing_calls.h"

#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "rehome/folder_reader.h"
#include "rehome/system_call.h"

namespace verbatim::rehome {

namespace {

/// "215 0xffff80000000 0x1000 ..." to numbers; false for any other text, such as "running".
bool parse_numbers(std::string_view line, std::array<std::uint64_t, 6>& numbers) noexcept {
  for (std::uint64_t& number : numbers) {
    while (line.starts_with(' ')) line.remove_prefix(1);
    const bool is_hex = line.starts_with("0x");
    if (is_hex) line.remove_prefix(2);
    const auto parsed =
        std::from_chars(line.data(), line.data() + line.size(), number, is_hex ? 16 : 10);
    if (parsed.ec != std::errc{}) return false;
    line.remove_prefix(static_cast<std::size_t>(parsed.ptr - line.data()));
  }
  return true;
}

Range pages_of(std::uint64_t address, std::uint64_t octets) noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return outer_pages({.begin = address, .end = address + octets}, page);
}

/// A file of /proc/self/task/TASK; empty when it cannot be read.
std::string_view read_file_of(const char* task, std::string_view file,
                              std::array<char, 256>& room) noexcept {
  constexpr std::string_view kFolder = "/proc/self/task/";
  std::array<char, 64> path{};
  const std::string_view name(task);
  if (kFolder.size() + name.size() + file.size() >= path.size()) return {};
  char* at = std::ranges::copy(kFolder, path.data()).out;
  at = std::ranges::copy(name, at).out;
  std::ranges::copy(file, at);
  const kernel::Descriptor opened(kernel::open_file(path.data(), O_RDONLY));
  if (!opened.is_open()) return {};
  const long octets = kernel::call(SYS_read, opened.number(), room.data(), room.size());
  return octets > 0 ? std::string_view(room.data(), static_cast<std::size_t>(octets))
                    : std::string_view();
}

/// The function of the kernel in which a thread waits for its event to be read.
constexpr std::string_view kWaitsForReader = "userfaultfd_event_wait_completion";

}  // namespace

std::optional<ChangingCall> parse_changing_call(std::string_view line, std::uintptr_t break_now,
                                                Range* target) noexcept {
  *target = {};
  std::array<std::uint64_t, 6> numbers{};  // the call, then its first arguments
  if (!parse_numbers(line, numbers)) return std::nullopt;
  const auto [call, first, second, third, fourth, fifth] = numbers;
  switch (static_cast<long>(call)) {
    case SYS_mmap:
      if ((fourth & MAP_FIXED) == 0) return std::nullopt;
      [[fallthrough]];
    case SYS_munmap:
      return ChangingCall{.change = Change::kUnmaps, .range = pages_of(first, second)};
    case SYS_mremap:
      if ((fourth & MREMAP_FIXED) != 0) *target = pages_of(fifth, third);
      return ChangingCall{.change = Change::kMovesAway, .range = pages_of(first, second)};
    case SYS_brk:
      if (first >= break_now) return std::nullopt;
      return ChangingCall{.change = Change::kUnmaps, .range = pages_of(first, break_now - first)};
    case SYS_madvise:
      if (third != MADV_DONTNEED && third != MADV_REMOVE) return std::nullopt;
      return ChangingCall{.change = Change::kEmpties, .range = pages_of(first, second)};
    default:
      return std::nullopt;
  }
}

bool ChangingCalls::covers(Change change, Range range) const noexcept {
  return std::any_of(begin(), end(), [&](const ChangingCall& call) {
    return call.change == change && call.range.covers(range);
  });
}

ChangingCalls read_changing_calls() noexcept {
  ChangingCalls found;
  const auto add = [&](const ChangingCall& call) {
    if (found.count < found.calls.size() && !call.range.empty()) found.calls[found.count++] = call;
  };
  const auto break_now = std::bit_cast<std::uintptr_t>(::sbrk(0));
  (void)for_each_entry("/proc/self/task", [&](const char* task) {
    if (*task == '.') return true;
    std::array<char, 256> room;
    if (!read_file_of(task, "/wchan", room).starts_with(kWaitsForReader)) return true;
    Range target;
    const auto call = parse_changing_call(read_file_of(task, "/syscall", room), break_now, &target);
    if (!call) return true;
    add(*call);
    add({.change = Change::kUnmaps, .range = target});
    return true;
  });
  return found;
}

}  // namespace verbatim::rehome
