// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/fence.h"

namespace verbatim {

/// Counts the visits of the one requester of a half: the counter is odd from enter() to leave(),
/// that is, while the requester is inside. Plain data in memory that two processes map; zeroed
/// memory means that no requester is inside.
///
/// The owner that takes something away (a key, a state, a queue) first publishes that it is gone,
/// and then calls quiesce(). When quiesce() returns, every visit that could have seen the thing is
/// over and all stores of these visits are visible.
///
/// Why this holds when the requester uses plain stores (Fencing::kExpedited): a barrier of the rare
/// side is a full fence in the requester, at one point of the requester's program.
///   First barrier. If the point lies before the store of enter(), all loads of the visit come
///   after it and see what was published before the barrier. If it lies after that store, the rare
///   side finds the counter odd, or already changed again.
///   Second barrier. The requester stored the counter that the rare side has seen change after the
///   last access of the visit in program order. That store may have become visible before the
///   accesses. The point of the second barrier lies after both, so after the barrier both are
///   visible.
/// With Fencing::kFenced the requester has the first fence in enter() and a release in leave().
class Occupancy {
 public:
  using Snapshot = std::uint64_t;

  // The requester: one thread at a time, serialised by its own process.
  /// The caller must load what it uses after this call, never before. `fencing` is kExpedited if
  /// this process is registered for membarrier(GLOBAL_EXPEDITED) and the process that owns the
  /// counter has said that it can call it; else kFenced.
  void enter(Fencing fencing) noexcept {
    store_next(std::memory_order_relaxed);
    fence_if(fencing);  // pairs with the first barrier of quiesce()
  }
  /// To be called after all loads and stores of the visit.
  void leave(Fencing fencing) noexcept {
    compiler_barrier();
    // The release pairs with the acquire in has_left(); without it, quiesce() has its second
    // barrier.
    store_next(is_fenced(fencing) ? std::memory_order_release : std::memory_order_relaxed);
  }

  /// The value that snapshot() would return now, for the requester itself. Relaxed, because an
  /// acquire would wait for the requester's own stores.
  [[nodiscard]] Snapshot present() const noexcept {
    return std::atomic_ref(const_cast<std::uint64_t&>(count_)).load(std::memory_order_relaxed);
  }

  // The rare side.
  [[nodiscard]] Snapshot snapshot() const noexcept {
    return std::atomic_ref(const_cast<std::uint64_t&>(count_)).load(std::memory_order_acquire);
  }
  [[nodiscard]] static constexpr bool is_inside(Snapshot at) noexcept { return (at & 1U) != 0; }
  /// Whether the visit that the snapshot found is over; true if it found none.
  [[nodiscard]] bool has_left(Snapshot since) const noexcept {
    return !is_inside(since) || snapshot() != since;  // the acquire pairs with leave()
  }
  /// Marks the requester as outside. Only when the requester is known to be dead, or is fenced off
  /// and will not be let in again.
  void vacate() noexcept {
    if (is_inside(snapshot())) store_next(std::memory_order_release);
  }

 private:
  static constexpr bool is_fenced(Fencing fencing) noexcept {
    return kBestFencing == Fencing::kFenced || fencing == Fencing::kFenced;
  }
  void store_next(std::memory_order order) noexcept {
    std::atomic_ref(count_).store(count_ + 1, order);
  }

  std::uint64_t count_ = 0;  // atomic; odd while the requester is inside
};
static_assert(sizeof(Occupancy) == 8 && std::is_trivially_copyable_v<Occupancy>);
static_assert(std::is_standard_layout_v<Occupancy>);

/// A visit that ends with its scope.
class ScopedVisit {
 public:
  ScopedVisit(Occupancy& occupancy, Fencing fencing) noexcept
      : occupancy_(occupancy), fencing_(fencing) {
    occupancy_.enter(fencing_);
  }
  ScopedVisit(const ScopedVisit&) = delete;
  ScopedVisit& operator=(const ScopedVisit&) = delete;
  ~ScopedVisit() { occupancy_.leave(fencing_); }

 private:
  Occupancy& occupancy_;
  const Fencing fencing_;
};

/// Waits until every visit is over that may have begun before the caller published its change.
///
/// `occupancies` is a range of Occupancy references. `barrier()` is membarrier(GLOBAL_EXPEDITED),
/// or a full_fence() where the system has none (then no requester uses kExpedited).
/// `keep_waiting(occupancy)` is called while a requester is inside. It spins or sleeps and returns
/// true, or returns false: then quiesce() no longer waits for this requester, and the caller has to
/// fence it off. Returns whether all requesters have left. Requesters may enter again at any time;
/// they see the change.
template <typename Range, typename Barrier, typename KeepWaiting>
[[nodiscard]] bool quiesce(Range&& occupancies, Barrier&& barrier, KeepWaiting&& keep_waiting) {
  bool all_left = true;
  barrier();
  for (auto& occupancy : occupancies) {
    // A later snapshot only makes the wait longer, so the snapshots need not be taken at once.
    const Occupancy::Snapshot before = occupancy.snapshot();
    while (!occupancy.has_left(before)) {
      if (keep_waiting(occupancy)) continue;
      all_left = false;
      break;
    }
  }
  barrier();
  return all_left;
}

}  // namespace verbatim
