// SPDX-License-Identifier: Apache-2.0
#include "rehome/changing_calls.h"

#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/pointer.h"
#include "rehome/system_call.h"
#include "rehome/tasks.h"

namespace verbatim::rehome {

namespace {

constexpr std::uint64_t kDontneedLocked = 24;  // MADV_DONTNEED_LOCKED, which older headers lack

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

/// The function of the kernel in which a thread waits for its event to be read.
constexpr std::string_view kWaitsForReader = "userfaultfd_event_wait_completion";

bool waits_for_reader(const char* task) noexcept {
  TaskFile text;
  return read_task_file(task, "/wchan", text).starts_with(kWaitsForReader);
}

/// A worker thread of the kernel in this process (io_uring) has no user registers.
bool is_worker(std::string_view line) noexcept { return line.ends_with(" 0x0 0x0\n"); }

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
      if ((fourth & MREMAP_DONTUNMAP) != 0) {
        return ChangingCall{.change = Change::kMovesAwayAndStays, .range = pages_of(first, second)};
      }
      if ((fourth & MREMAP_FIXED) == 0 && third < second) {  // it shrinks in place
        const std::uint64_t left = pages_of(first, third).octets();
        return ChangingCall{.change = Change::kUnmaps,
                            .range = pages_of(first + left, second - left)};
      }
      return ChangingCall{.change = Change::kMovesAway, .range = pages_of(first, second)};
    case SYS_brk:
      if (first >= break_now) return std::nullopt;
      return ChangingCall{.change = Change::kUnmaps, .range = pages_of(first, break_now - first)};
    case SYS_madvise:
      if (third != MADV_DONTNEED && third != kDontneedLocked && third != MADV_REMOVE) {
        return std::nullopt;
      }
      return ChangingCall{.change = Change::kEmpties,
                          .range = pages_of(first, second),
                          .includes_locked = third == kDontneedLocked};
    default:
      return std::nullopt;
  }
}

bool ChangingCalls::covers(Change change, Range range) const noexcept {
  return std::any_of(begin(), end(), [&](const ChangingCall& call) {
    return call.change == change && call.range.covers(range);
  });
}

/// The order of the three readings matters. The first reading of "syscall" waits until a thread
/// that is about to sleep does sleep; before that, "wchan" is empty. The second reading shows the
/// call in which the thread waited when "wchan" was read, because a thread that waits for the
/// reader of its event does nothing else.
ChangingCalls read_changing_calls() noexcept {
  ChangingCalls found;
  const auto add = [&](const ChangingCall& call) {
    if (call.range.empty()) return;
    if (found.count == found.calls.size()) {
      found.has_unseen = true;
      return;
    }
    found.calls[found.count++] = call;
  };
  const auto break_now = numeric_address(::sbrk(0));
  const auto read_call = [&](const char* task, Range* target, bool& is_unseen) {
    TaskFile text;
    const std::string_view line = read_task_file(task, "/syscall", text);
    is_unseen = is_worker(line);
    return parse_changing_call(line, break_now, target);
  };
  for_each_task([&](const char* task) {
    Range target;
    bool is_unseen = false;
    if (!read_call(task, &target, is_unseen) && !is_unseen) return;
    if (!waits_for_reader(task)) return;
    const auto call = read_call(task, &target, is_unseen);
    if (!call) {
      found.has_unseen = true;
      return;
    }
    add(*call);
    add({.change = Change::kUnmaps, .range = target});
  });
  return found;
}

}  // namespace verbatim::rehome
