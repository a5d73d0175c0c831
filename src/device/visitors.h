// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/adapter_role.h"
#include "base/fence.h"
#include "base/occupancy.h"
#include "base/time.h"
#include "device/peer_access.h"
#include "device/region_homes.h"
#include "device/visited_half.h"
#include "direct/half.h"
#include "direct/visitor.h"
#include "host/adapter_guard.h"
#include "host/membarrier.h"
#include "host/quarantine.h"
#include "host/queue_lock.h"
#include "host/segment.h"

namespace verbatim::device {

/// The requesters of this host that are at work in the receiving halves of an adapter, for a caller
/// that takes something away from them. A visitor that does not leave in time is treated as
/// stopped: it becomes a stray. Blocks that a stray may still touch are not used again before the
/// stray has left or its process has died.
///
/// With the adapter's lock held, unless a function says otherwise.
class Visitors final : public PeerAccess {
 public:
  /// `note_deadline` is told when look() is to be called at the latest.
  Visitors(host::Segment& segment, std::function<void(Instant)> note_deadline)
      : quarantine_(segment), note_deadline_(std::move(note_deadline)) {}
  Visitors(const Visitors&) = delete;
  Visitors& operator=(const Visitors&) = delete;
  ~Visitors() { forget_strays(); }

  /// A half that requesters may visit, until remove_half().
  void add_half(VisitedHalf& half) VB_REQUIRES(adapter_role) { halves_.insert(&half); }
  void remove_half(VisitedHalf& half) noexcept VB_REQUIRES(adapter_role) { halves_.erase(&half); }

  /// From now on another process may complete something here without the lock. Any thread.
  void note_direct_use() noexcept {
    has_direct_use_.store(true, std::memory_order_relaxed);
    has_process_direct_use_.store(true, std::memory_order_relaxed);
  }
  /// For a thread that has armed something and then looks once more whether it has happened: a
  /// fence in this process, and in all processes that may have missed the arming. Any thread,
  /// without the lock.
  static void arming_barrier() noexcept {
    full_fence();  // a visit that begins from now on sees what was armed
    if (has_process_direct_use_.load(std::memory_order_relaxed)) host::Membarrier::all_processes();
  }

  [[nodiscard]] bool await() VB_REQUIRES(adapter_role) override { return find_stopped().empty(); }
  void await_calls(host::AdapterGuard& lock, std::uint64_t address, std::uint64_t octets)
      VB_REQUIRES(adapter_role) override;

  /// A visitor is stopped in this half, which is to end. When the visitor goes on, it reaches no
  /// memory that is in use.
  void lock_out(VisitedHalf& half, RegionHomes& homes) VB_REQUIRES(adapter_role);
  /// The owner of the half no longer waits for its present visit.
  void add_stray(const direct::Half& half, host::Quarantine::Stray stray) VB_REQUIRES(adapter_role);
  /// In place of Segment::give_back(): a block that a stray may touch goes back when the stray has
  /// gone.
  void give_back(std::span<std::byte> block) VB_REQUIRES(adapter_role) {
    quarantine_.give_back(block);
  }

  /// Looks which strays have gone.
  void look(Instant at) VB_REQUIRES(adapter_role);
  void look_if_any(Instant at) VB_REQUIRES(adapter_role) {
    if (!quarantine_.is_empty()) look(at);
  }
  /// When to look again; never without strays.
  [[nodiscard]] Instant next_look() const noexcept VB_REQUIRES(adapter_role) { return next_look_; }

  void abandon_in_child() noexcept VB_REQUIRES(adapter_role);

 private:
  [[nodiscard]] std::vector<VisitedHalf*> find_stopped() VB_REQUIRES(adapter_role);
  void forget_strays() noexcept VB_REQUIRES(adapter_role);

  host::Quarantine quarantine_ VB_GUARDED_BY(adapter_role);
  std::function<void(Instant)> note_deadline_;
  std::set<VisitedHalf*> halves_ VB_GUARDED_BY(adapter_role);
  std::vector<std::pair<direct::Visitor, Occupancy::Snapshot>> strays_ VB_GUARDED_BY(adapter_role);
  int stray_count_ VB_GUARDED_BY(adapter_role) = 0;
  Instant next_look_ VB_GUARDED_BY(adapter_role) = Instant::never();
  std::atomic<bool> has_direct_use_{false};
  static inline std::atomic<bool> has_process_direct_use_{false};  // of any adapter
};

}  // namespace verbatim::device
