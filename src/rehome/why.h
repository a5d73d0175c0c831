// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/expected.h"

namespace verbatim::rehome {

/// Why a range was not moved into the arena. Peers then reach it by other means; nothing fails.
enum class Why : std::uint8_t {
  kPolicy,         // moving is switched off
  kTooSmall,       // not one whole page, or less than moving is worth
  kShortLived,     // the same range was given up soon after it had been moved
  kNotThere,       // part of the range is not mapped, or may not be touched
  kFileBacked,     // pages of a file: the file would no longer see stores
  kShared,         // shared already, with somebody whom we do not know
  kStack,          // a stack, or the storage of a thread
  kHugePage,       // reserved huge pages, which a memory file of ours cannot give
  kLocked,         // locked into memory
  kBound,          // bound to nodes of memory
  kExecutable,     // code
  kUserfaultfd,    // somebody else handles the faults of this range
  kPinned,         // a descriptor is open that may have pinned pages: io_uring, vfio, a GPU, ...
  kReplaced,       // the program put other memory where a moved range was
  kQuarantined,    // a stopped peer may still store where the range would go
  kManyMappings,   // the range consists of too many mappings
  kFileSizeLimit,  // ulimit -f
  kNoGuard,        // the system does not let us hold up other threads' stores (userfaultfd)
  kNoProcess,      // /proc/self cannot be read
  kNoDescriptor,   // too many open files
  kNoMemory,       // out of memory, address space or mappings
  kRefused,        // the kernel refused a step for another reason
};

/// The same in words, for tools and log lines: "file-backed", "locked into memory".
[[nodiscard]] const char* to_text(Why why) noexcept;

/// Moved, or the reason why not.
using Moved = BasicStatus<Why>;

}  // namespace verbatim::rehome
