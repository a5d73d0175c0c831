// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/fence.h"

namespace verbatim {

/// Says whether the one requester of a responder half is inside it: a counter that is odd from
/// enter() to leave(). Plain data in memory that two processes map; zeroed memory is an empty one.
///
/// The owner that takes something away (a key, a state, a queue) calls quiesce() after it has
/// published that the thing is gone. When quiesce() returns, every visit that could have seen the
/// thing is over and all that it wrote is visible.
///
/// Why this holds when the requester uses plain stores (Fencing::kExpedited): a barrier of the rare
/// side is a full fence in the requester, at one point of its program.
///   First barrier. If the point lies before the store of enter(), all that the visit loads comes
///   after it and sees what was published before the barrier. If it lies behind that store, the
///   rare side finds the counter odd, or already changed again.
///   Second barrier. The counter that the rare side has seen change was stored after the visit's
///   last access in program order, but may have overtaken it on the way to memory. The point now
///   lies behind both, so with the barrier both have arrived.
/// With Fencing::kFenced the requester has the first fence in enter() and a release in leave().
class Occupancy {
 public:
  using Snapshot = std::uint64_t;

  // The requester: one thread at a time, serialised by its own process.
  /// The caller then loads what it is going to use, never before. `fencing` is kExpedited if this
  /// process is registered for membarrier(GLOBAL_EXPEDITED) and the process that owns the counter
  /// has said that it can call it; else kFenced.
  void enter(Fencing fencing) noexcept {
    store_next(std::memory_order_relaxed);
    fence_if(fencing);  // pairs with the first barrier of quiesce()
  }
  /// The caller has loaded and stored all that it wanted.
  void leave(Fencing fencing) noexcept {
    compiler_barrier();
    // The release pairs with the acquire in has_left(); without it, quiesce() has its second
    // barrier.
    store_next(is_fenced(fencing) ? std::memory_order_release : std::memory_order_relaxed);
  }

  /// What snapshot() would find now. An acquire would wait for the requester's own stores.
  [[nodiscard]] Snapshot present() const noexcept {
    return std::atomic_ref(const_cast<std::uint64_t&>(count_)).load(std::memory_order_relaxed);
  }

  // The rare side.
  [[nodiscard]] Snapshot snapshot() const noexcept {
    return std::atomic_ref(const_cast<std::uint64_t&>(count_)).load(std::memory_order_acquire);
  }
  [[nodiscard]] static constexpr bool is_inside(Snapshot at) noexcept { return (at & 1U) != 0; }
  /// Whether the visit that the snapshot found, if it found one, is over.
  [[nodiscard]] bool has_left(Snapshot since) const noexcept {
    return !is_inside(since) || snapshot() != since;  // the acquire pairs with leave()
  }
  /// The requester is known to be dead, or was fenced off and will not be let in again: the counter
  /// says "outside" for the next one.
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
class Visit {
 public:
  Visit(Occupancy& occupancy, Fencing fencing) noexcept : occupancy_(occupancy), fencing_(fencing) {
    occupancy_.enter(fencing_);
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  ~Visit() { occupancy_.leave(fencing_); }

 private:
  Occupancy& occupancy_;
  const Fencing fencing_;
};

/// Waits until every visit is over that may have begun before the caller published its change.
///
/// `occupancies` is a range of Occupancy references. `barrier()` is membarrier(GLOBAL_EXPEDITED),
/// or a full_fence() where the system has none (then no requester was told kExpedited).
/// `keep_waiting(occupancy)` is called while somebody is inside: it spins or sleeps and returns
/// true, or returns false to leave that requester behind, whom the caller then has to fence off.
/// Returns whether all have left. Requesters may enter anew at any time; they see the change.
template <typename Range, typename Barrier, typename KeepWaiting>
[[nodiscard]] bool quiesce(Range&& occupancies, Barrier&& barrier, KeepWaiting&& keep_waiting) {
  bool all_left = true;
  barrier();
  for (auto& occupancy : occupancies) {
    // A later snapshot only waits for more, so none has to be kept.
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
