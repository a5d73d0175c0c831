// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "base/adapter_role.h"
#include "base/fence.h"
#include "base/occupancy.h"
#include "device/fault_guard.h"
#include "direct/access_list.h"
#include "host/membarrier.h"

namespace verbatim::device {

/// The work of an adapter on registered memory with its lock held: packets and errands. Threads
/// that take memory away wait for the work that is under way (AccessList), and memory that is
/// missing ends the work, not the process (guarded()). The work looks at the keys that it uses.
class MemoryWork {
 public:
  MemoryWork() noexcept = default;
  MemoryWork(const MemoryWork&) = delete;
  MemoryWork& operator=(const MemoryWork&) = delete;

  /// As guarded().
  template <typename Work>
  [[nodiscard]] bool run(Work&& work, void** fault_at = nullptr) noexcept
      VB_REQUIRES(adapter_role) {
    inside_.enter(fencing_);
    const bool is_done = guarded(std::forward<Work>(work), fault_at);
    inside_.leave(fencing_);
    return is_done;
  }

 private:
  Occupancy inside_ VB_GUARDED_BY(adapter_role);
  const Fencing fencing_ = host::Membarrier::global();
  direct::AccessParty party_{direct::AccessParty::Kind::kAdapter, inside_};
};

}  // namespace verbatim::device
