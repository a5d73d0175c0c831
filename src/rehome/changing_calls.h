// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "rehome/range.h"

namespace verbatim::rehome {

/// What a system call that changes mappings does to a range of addresses.
enum class Change : std::uint8_t {
  kUnmaps,             // munmap(2), mmap(2) and mremap(2) over existing mappings, brk(2)
  kMovesAway,          // mremap(2): the pages exist at another address afterwards
  kMovesAwayAndStays,  // likewise with MREMAP_DONTUNMAP: the old address remains mapped
  kEmpties,            // madvise(2) with MADV_DONTNEED, MADV_DONTNEED_LOCKED or MADV_REMOVE
};

struct ChangingCall {
  Change change = Change::kUnmaps;
  Range range;
  bool includes_locked = false;  // kEmpties: also locked memory
};

/// Parses one line of /proc/PID/task/TID/syscall. Returns the call if the thread waits inside a
/// system call that changes mappings, else nothing. mremap(2) may have two ranges; `target` is the
/// one that it unmaps. `break_now` is the end of the heap as the C library knows it.
[[nodiscard]] std::optional<ChangingCall> parse_changing_call(std::string_view line,
                                                              std::uintptr_t break_now,
                                                              Range* target) noexcept;

/// The system calls of this process that change mappings and wait until their event of
/// userfaultfd(2) is read. A listed call continues to wait: only the reader of the events lets it
/// go on.
struct ChangingCalls {
  static constexpr std::size_t kCallsMax = 256;
  std::array<ChangingCall, kCallsMax> calls{};
  std::size_t count = 0;
  /// A thread waits whose call is not visible (a worker of io_uring), or there are too many calls.
  bool has_unseen = false;

  [[nodiscard]] bool is_empty() const noexcept { return count == 0 && !has_unseen; }
  [[nodiscard]] bool covers(Change change, Range range) const noexcept;
  [[nodiscard]] const ChangingCall* begin() const noexcept { return calls.data(); }
  [[nodiscard]] const ChangingCall* end() const noexcept { return calls.data() + count; }
};

/// Lists every call whose event existed before this was called, except those of threads that were
/// woken since and do not wait again yet (ThreadClocks). Allocates nothing.
[[nodiscard]] ChangingCalls read_changing_calls() noexcept;

}  // namespace verbatim::rehome
