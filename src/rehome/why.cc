// SPDX-License-Identifier: Apache-2.0
#include "rehome/why.h"

namespace verbatim::rehome {

const char* to_text(Why why) noexcept {
  switch (why) {
    case Why::kMoved:
      return "it was moved";
    case Why::kNoPeer:
      return "no queue pair of its domain has had a peer on this host";
    case Why::kPolicy:
      return "moving is switched off (VERBATIM_REHOME, VERBATIM_PATH)";
    case Why::kThreads:
      return "the program had more than one thread";
    case Why::kTooSmall:
      return "less than a page";
    case Why::kNotThere:
      return "not mapped, or not accessible";
    case Why::kFileBacked:
      return "file-backed";
    case Why::kShared:
      return "a shared mapping of the program's own";
    case Why::kStack:
      return "a stack or a thread's storage";
    case Why::kHugePage:
      return "reserved huge pages";
    case Why::kLocked:
      return "locked into memory";
    case Why::kBound:
      return "bound to memory nodes";
    case Why::kExecutable:
      return "executable";
    case Why::kUserfaultfd:
      return "under a userfaultfd of the program";
    case Why::kPinned:
      return "pinned by the kernel, or a descriptor is open that may pin it";
    case Why::kReplaced:
      return "the addresses belonged to other registered memory";
    case Why::kForked:
      return "the process has forked";
    case Why::kStopped:
      return "a peer was stopped in the middle of an access";
    case Why::kManyMappings:
      return "too many mappings";
    case Why::kFileSizeLimit:
      return "beyond the file size limit (ulimit -f)";
    case Why::kNoGuard:
      return "the system does not allow userfaultfd with events";
    case Why::kNoProcess:
      return "/proc/self cannot be read";
    case Why::kNoDescriptor:
      return "no file descriptor left";
    case Why::kNoMemory:
      return "out of memory, address space or mappings";
    case Why::kRefused:
      return "the kernel refused";
    case Why::kProtectionKey:
      return "the program uses protection keys";
  }
  return "unknown";
}

}  // namespace verbatim::rehome
