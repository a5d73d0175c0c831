// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/expected.h"

namespace verbatim::rehome {

/// Why a range was not moved into the arena. Peers then reach it by other means; no call fails.
enum class Why : std::uint8_t {
  kMoved = 0,      // it was moved
  kNoPeer,         // no queue pair of its domain has had a peer on this host
  kPolicy,         // moving is switched off
  kThreads,        // the program had another thread, whose system calls could fail
  kTooSmall,       // not one whole page
  kNotThere,       // part of the range is not mapped, or not accessible
  kFileBacked,     // pages of a file: the file would no longer see stores
  kShared,         // a shared mapping already
  kStack,          // a stack, or the storage of a thread
  kHugePage,       // reserved huge pages, which a memory file does not have
  kLocked,         // locked into memory
  kBound,          // bound to memory nodes (NUMA)
  kExecutable,     // code
  kUserfaultfd,    // the program handles the faults of this range itself
  kPinned,         // the kernel has pinned pages, or a descriptor is open that may pin them
  kReplaced,       // these addresses belonged to other memory of a region that still exists
  kForked,         // the process has forked since it was moved, and shares the pages with its child
  kStopped,        // a peer was stopped in the middle of an access
  kManyMappings,   // the range consists of too many mappings
  kFileSizeLimit,  // ulimit -f
  kNoGuard,        // the kernel does not report changes of mappings (userfaultfd)
  kNoProcess,      // /proc/self cannot be read
  kNoDescriptor,   // too many open files
  kNoMemory,       // out of memory, address space or mappings
  kRefused,        // the kernel refused a step for another reason
  kProtectionKey,  // the program uses protection keys (pkeys(7)), which moved pages would lose
};

/// The reason in words, for tools and log lines: "file-backed", "locked into memory".
[[nodiscard]] const char* to_text(Why why) noexcept;

/// Moved, or the reason why not.
using Moved = BasicStatus<Why>;

}  // namespace verbatim::rehome
