// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/fence.h"
#include "base/occupancy.h"
#include "base/time.h"
#include "device/queue_pair_table.h"
#include "device/region_homes.h"
#include "direct/half.h"
#include "direct/visitor.h"
#include "host/membarrier.h"
#include "host/quarantine.h"
#include "host/queue_lock.h"
#include "host/segment.h"

namespace verbatim::device {

class Engine;
class QueuePair;

/// The requesters of this host that are at work in receiving halves of ours, for a caller that
/// takes something away from them. A visitor that does not leave in time is treated as stopped: it
/// becomes a stray. What a stray may still touch is not used again before the stray has left or its
/// process has died.
///
/// With the adapter's lock held, unless a function says otherwise.
class Visitors {
 public:
  Visitors(host::Segment& segment, const QueuePairTable<QueuePair>& queue_pairs,
           Engine& engine) noexcept
      : quarantine_(segment), queue_pairs_(queue_pairs), engine_(engine) {}
  Visitors(const Visitors&) = delete;
  Visitors& operator=(const Visitors&) = delete;

  /// Another process may complete something here without our lock, from now on. Any thread.
  void note_direct_use() noexcept {
    has_direct_use_.store(true, std::memory_order_relaxed);
    has_process_direct_use_.store(true, std::memory_order_relaxed);
  }
  /// Between arming something and looking once more whether it has happened: a fence here, and in
  /// all processes that may have missed the arming. Any thread, without the lock.
  static void arming_barrier() noexcept {
    full_fence();  // a visit that begins from now on sees what was armed
    if (has_process_direct_use_.load(std::memory_order_relaxed)) host::Membarrier::all_processes();
  }

  /// Access through a key has ended: returns when no visitor is in the middle of one, or false when
  /// one is stopped there.
  bool await() { return find_stopped().empty(); }
  /// The same for memory that peers reach by system calls: returns when every call has ended that
  /// was announced before. `lock` is let go meanwhile.
  void await_calls(std::unique_lock<host::AdapterLock>& lock, std::uint64_t address,
                   std::uint64_t octets);

  /// A visitor is stopped in this queue pair's receiving half, which is to end: what the visitor
  /// does when it goes on reaches no memory that is in use.
  void lock_out(QueuePair& qp, RegionHomes& homes);
  /// The present visit of that half was given up.
  void add_stray(const direct::Half& half, host::Quarantine::Stray stray);
  /// In place of Segment::give_back(): a block that a stray may touch goes back when it has gone.
  void give_back(std::span<std::byte> block) { quarantine_.give_back(block); }

  /// Looks which strays have gone.
  void look(Instant at);
  void look_if_any(Instant at) {
    if (!quarantine_.is_empty()) look(at);
  }
  /// When to look again; never without strays.
  [[nodiscard]] Instant next_look() const noexcept { return next_look_; }

  void abandon_in_child() noexcept;

 private:
  [[nodiscard]] std::vector<QueuePair*> find_stopped();

  host::Quarantine quarantine_;
  const QueuePairTable<QueuePair>& queue_pairs_;
  Engine& engine_;
  std::vector<std::pair<direct::Visitor, Occupancy::Snapshot>> strays_;
  Instant next_look_ = Instant::never();
  std::atomic<bool> has_direct_use_{false};
  static inline std::atomic<bool> has_process_direct_use_{false};  // of any adapter
};

}  // namespace verbatim::device
