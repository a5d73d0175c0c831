// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/acquire.h"
#include "base/expected.h"
#include "base/fence.h"
#include "base/pointer.h"
#include "base/time.h"
#include "transport/queues/completion_lane.h"

namespace verbatim::transport {

/// What a completion queue is armed for (IBA Vol 1, 11.4.2.2).
enum class Arming : std::uint32_t { kNone = 0, kSolicited = 1, kAny = 2 };

/// The part of a completion queue that producers touch, possibly from a peer process: whether it is
/// armed, and the hints, one byte for each lane. When there are more lanes than hints, several
/// lanes share a hint. Plain data in a block that the caller provides.
class CompletionBoard {
 public:
  [[nodiscard]] static std::size_t octets_for(std::uint32_t hint_count) noexcept {
    return sizeof(Header) + ((std::size_t{hint_count} + 63) & ~std::size_t{63});
  }

  CompletionBoard() noexcept = default;
  static CompletionBoard create(std::span<std::byte> block, std::uint32_t hint_count) noexcept;
  /// A view of the board at the beginning of `room` (64-aligned). exists() is false when the
  /// octets there are no board, or one that is longer than `room`.
  static CompletionBoard attach(std::span<std::byte> room) noexcept;
  [[nodiscard]] bool exists() const noexcept { return block_ != nullptr; }

  [[nodiscard]] std::uint32_t hint_count() const noexcept { return hint_count_; }
  [[nodiscard]] std::atomic_ref<std::uint8_t> hint(std::uint32_t index) const noexcept {
    return std::atomic_ref(*pointer_as<std::uint8_t>(block_ + sizeof(Header) + index));
  }
  /// pairs with the release in raise()
  [[nodiscard]] bool is_hinted(std::uint32_t index) const noexcept {
    return load_acquire(*pointer_as<std::uint8_t>(block_ + sizeof(Header) + index)) != 0;
  }
  /// Raises the hint; true when it was down. The hint is read first: a cache line that all threads
  /// only read stays in the caches of all.
  [[nodiscard]] bool raise(std::uint32_t index) noexcept {
    if (hint(index).load(std::memory_order_relaxed) != 0) [[likely]]
      return false;
    hint(index).store(1, std::memory_order_release);  // pairs with is_hinted()
    return true;
  }
  /// Eight hints at once, for a quick look; index is a multiple of eight.
  [[nodiscard]] std::uint64_t hints_from(std::uint32_t index) const noexcept {
    return std::atomic_ref(*pointer_as<std::uint64_t>(block_ + sizeof(Header) + index))
        .load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::atomic_ref<std::uint32_t> armed() const noexcept {
    return std::atomic_ref(header().armed);
  }
  /// Whether completions get a timestamp.
  [[nodiscard]] bool keeps_time() const noexcept { return header().keeps_time != 0; }
  void keep_time() noexcept { header().keeps_time = 1; }
  [[nodiscard]] std::atomic_ref<std::uint32_t> fired() const noexcept {
    return std::atomic_ref(header().fired);
  }

 private:
  struct alignas(64) Header {
    std::uint32_t hint_count = 0;
    std::uint32_t armed = 0;       // atomic; Arming
    std::uint32_t fired = 0;       // atomic; events that are not taken
    std::uint32_t keeps_time = 0;  // set before the first work queue is attached
  };
  [[nodiscard]] Header& header() const noexcept { return *pointer_as<Header>(block_); }
  std::byte* block_ = nullptr;
  std::uint32_t hint_count_ = 0;
};

/// The part of a completion queue that a work queue uses: its lane and the board. One producer
/// each.
///
/// `fencing` is how the producer orders its stores against arm() and lower_hints(): kFenced if the
/// barrier that the owner calls there does not reach this process.
class CompletionPort {
 public:
  CompletionPort() noexcept = default;
  /// `hint` is the index of the lane's hint on the board.
  CompletionPort(CompletionLane lane, CompletionBoard board, std::uint32_t hint,
                 Fencing fencing = Fencing::kFenced) noexcept
      : lane_(lane), board_(board), hint_(hint), index_(hint), fencing_(fencing) {}
  /// For the owner: the index of the lane differs from that of its hint when lanes share hints.
  [[nodiscard]] CompletionPort of_lane(std::uint32_t index) const noexcept {
    CompletionPort port = *this;
    port.index_ = index;
    return port;
  }
  /// The same port for a producer with this fencing.
  [[nodiscard]] CompletionPort with(Fencing fencing) const noexcept {
    CompletionPort port = *this;
    port.fencing_ = fencing;
    return port;
  }

  /// Completions that the consumer has not collected.
  [[nodiscard]] std::uint32_t uncollected() const noexcept { return lane_.count(); }
  /// How many more completions have a place if the work queue has `places`. It may be too few, but
  /// is 0 only when there is none.
  [[nodiscard]] std::uint32_t room(std::uint32_t places) noexcept {
    const std::uint32_t waiting = lane_.count_from(places);
    return waiting < places ? places - waiting : 0;
  }
  /// Whether more than `limit` completions wait to be collected.
  [[nodiscard]] bool has_more_than(std::uint32_t limit) noexcept {
    return lane_.count_from(limit + 1) > limit;
  }
  /// How many were ever published, and ever collected; both wrap.
  [[nodiscard]] std::uint32_t published() const noexcept {
    return lane_.exists() ? lane_.pushed() : 0;
  }
  [[nodiscard]] std::uint32_t collected() const noexcept { return lane_.collected(); }
  /// The producer has died: finishes what it had begun. It may have disarmed the queue without
  /// raising the event, so an event is raised if it died in publish().
  void recover() noexcept {
    if (!lane_.exists()) return;
    const bool was_interrupted = lane_.recover();
    board_.hint(hint_).store(1, std::memory_order_release);  // pairs with is_hinted()
    if (!was_interrupted) return;
    board_.armed().store(0, std::memory_order_relaxed);
    board_.fired().fetch_add(1, std::memory_order_release);  // pairs with take_event()
  }
  /// The index of the lane, and of its hint on the board.
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  [[nodiscard]] std::uint32_t hint() const noexcept { return hint_; }
  [[nodiscard]] const CompletionLane& lane() const noexcept { return lane_; }
  [[nodiscard]] bool keeps_time() const noexcept { return board_.keeps_time(); }

  /// False when the lane is full; then the completion queue has overrun.
  [[nodiscard, gnu::always_inline]] bool publish(const Completion& completion) noexcept {
    if (!lane_.put(completion)) return false;
    fence_if(fencing_);  // pairs with the barriers in lower_hints() and arm()
    if (board_.raise(hint_)) [[unlikely]]
      fence_if(fencing_);  // pairs with the barrier in arm()
    if (board_.armed().load(std::memory_order_relaxed) != 0) [[unlikely]] {
      wake_if_armed(completion.solicited || completion.status != WcStatus::kSuccess);
    }
    lane_.count_put();
    return true;
  }

 private:
  void wake_if_armed(bool is_urgent) noexcept;

  CompletionLane lane_;
  CompletionBoard board_;
  std::uint32_t hint_ = 0;
  std::uint32_t index_ = 0;  // the owner's
  Fencing fencing_ = Fencing::kFenced;
};

/// A completion queue (IBA Vol 1, 10.8.6) as its owner sees it: its lanes, collected in turn. Order
/// holds within each lane, and so within each work queue; the specification asks for no more.
///
/// Storage for the lane list is the caller's. Thread: the one that holds the queue's lock polls,
/// attaches and arms; producers only use their CompletionPort.
class CompletionLanes {
 public:
  /// `lanes` are the places for lanes.
  CompletionLanes(CompletionBoard board, std::span<CompletionLane> lanes,
                  std::uint32_t capacity) noexcept
      : board_(board), lanes_(lanes), capacity_(capacity) {}

  /// Uses another list of lanes, which is longer and begins with the present lanes.
  void use_places(std::span<CompletionLane> lanes) noexcept { lanes_ = lanes; }
  /// Gives a work queue its port. kNoMemory when every place is taken.
  [[nodiscard]] Expected<CompletionPort> attach(CompletionLane lane) noexcept;
  /// Removes the lane and its completions: its queue pair is destroyed.
  void detach(const CompletionPort& port) noexcept;

  /// Replaces the lane of the port by another one. A producer of the old lane is no longer
  /// collected.
  [[nodiscard]] CompletionPort replace(const CompletionPort& port, CompletionLane lane) noexcept;

  /// Drops the completions of the lane: its queue pair was reset. No producer is at work meanwhile.
  void discard(const CompletionPort& port) noexcept;

  /// Collects up to into.size() completions; returns how many.
  [[nodiscard]] std::size_t poll(std::span<Completion> into) noexcept;
  /// Whether so many empty lanes have raised hints that checking them costs more than lowering the
  /// hints. The limit is lower while polls find nothing.
  [[nodiscard]] bool has_stale_hints() const noexcept { return has_stale_hints_; }
  /// Lowers the hints of empty lanes. `barrier` is as in arm(): a producer that has not seen its
  /// hint lowered has published before the barrier, and then its lane is found not empty.
  void lower_hints(Barrier barrier = full_fence) noexcept;

  /// Asks for one event at the next completion that `what` matches. A completion that is published
  /// at the same time may not fire; then a poll after this call finds it.
  ///
  /// `barrier` acts as a fence in every producer without one of its own, at one point of its
  /// publish(). If that point is behind the store of the completion, the next poll finds the
  /// completion. Otherwise the producer sees the arming. It is membarrier(2) as soon as a producer
  /// is kExpedited.
  void arm(Arming what, Barrier barrier = full_fence) noexcept;
  [[nodiscard]] bool has_event() const noexcept {
    return board_.fired().load(std::memory_order_relaxed) != 0;
  }
  /// Takes an event; false when there is none. Every arming that fired is one event.
  [[nodiscard]] bool take_event() noexcept {
    auto fired = board_.fired();
    if (fired.load(std::memory_order_acquire) == 0)
      return false;  // pairs with the port's fetch_add
    fired.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

  void keep_time() noexcept { board_.keep_time(); }
  /// Sets the timestamp of every completion that has none. For programs that ask for timestamps;
  /// producers in other processes must have a clock of their own.
  void stamp(Instant now) noexcept;

  /// Completions that wait to be collected.
  [[nodiscard]] std::uint32_t waiting_count() const noexcept;
  [[nodiscard]] bool is_overrun() const noexcept { return waiting_count() > capacity_; }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  /// kInvalidArgument when more completions wait than the new capacity.
  [[nodiscard]] Status resize(std::uint32_t capacity) noexcept;

 private:
  /// Empty lanes with a raised hint that a poll tolerates, in a stream and after kIdlePolls polls
  /// in a row that found nothing.
  static constexpr std::uint32_t kStaleLimit = 64;
  static constexpr std::uint32_t kIdleStaleLimit = 8;
  static constexpr std::uint32_t kIdlePolls = 64;
  /// Prefetches the lanes of the raised hints among eight.
  void prefetch(std::uint32_t hint) const noexcept;
  [[nodiscard]] std::size_t collect(std::uint32_t hint, std::span<Completion> into) noexcept;
  template <typename Visit>
  void visit_hinted(Visit&& visit) const noexcept;
  template <typename Visit>
  void visit_lanes(std::uint32_t hint, Visit&& visit) const noexcept;
  [[nodiscard]] bool has_lanes(std::uint32_t hint) const noexcept;
  [[nodiscard]] bool is_dry(std::uint32_t hint) const noexcept;
  void note_used(std::uint32_t used) noexcept;

  CompletionBoard board_;
  std::span<CompletionLane> lanes_;  // the caller's, by lane index; unused ones do not exist()
  std::uint32_t capacity_;           // what the consumer asked for
  std::uint32_t used_ = 0;           // lanes below this index may be in use
  std::uint32_t hints_used_ = 0;     // hints below this index may be in use
  std::uint32_t lowest_free_ = 0;    // all places below this index are taken
  std::uint32_t turn_ = 0;           // the hint where the next poll begins
  std::uint32_t rounds_ = 0;         // rounds that polls have made over all hints
  std::uint32_t idle_polls_ = 0;     // polls in a row that found nothing
  bool has_stale_hints_ = false;
};

}  // namespace verbatim::transport
