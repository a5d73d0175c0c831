// SPDX-License-Identifier: Apache-2.0
#include "rehome/why.h"

namespace verbatim::rehome {

const char* to_text(Why why) noexcept {
  switch (why) {
    case Why::kPolicy:
      return "moving is switched off";
    case Why::kTooSmall:
      return "too small to be worth it";
    case Why::kShortLived:
      return "deregistered soon after its last registration";
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
      return "its faults are handled by another userfaultfd";
    case Why::kPinned:
      return "a descriptor is open that may have pinned pages (io_uring, vfio, GPU, KVM, AF_XDP, "
             "InfiniBand)";
    case Why::kReplaced:
      return "other memory was mapped over a registered range";
    case Why::kQuarantined:
      return "a stopped peer may still store there";
    case Why::kManyMappings:
      return "it consists of too many mappings";
    case Why::kFileSizeLimit:
      return "the file size limit (ulimit -f)";
    case Why::kNoGuard:
      return "userfaultfd is not available";
    case Why::kNoProcess:
      return "/proc/self cannot be read";
    case Why::kNoDescriptor:
      return "too many open files";
    case Why::kNoMemory:
      return "out of memory, address space or mappings";
    case Why::kRefused:
      return "the kernel refused";
  }
  return "unknown";
}

}  // namespace verbatim::rehome
