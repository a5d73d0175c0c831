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
/// armed, and bytes that say "look here", one for each lane; where there are more lanes than bytes,
/// one for every so many. Plain data in a block that the caller provides.
class CompletionBoard {
 public:
  [[nodiscard]] static std::size_t octets_for(std::uint32_t hint_count) noexcept {
    return sizeof(Header) + ((std::size_t{hint_count} + 63) & ~std::size_t{63});
  }

  CompletionBoard() noexcept = default;
  static CompletionBoard create(std::span<std::byte> block, std::uint32_t hint_count) noexcept;
  /// Looks at a board that somebody made at the beginning of `room` (64-aligned). None exists()
  /// when what stands there is no board, or a longer one than there is room.
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
  /// Raises the hint; true when it was down. Whether it is up is only looked at: a line that all
  /// read and nobody writes costs nobody anything.
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
  /// Whether completions are to say when they were made.
  [[nodiscard]] bool keeps_time() const noexcept { return header().keeps_time != 0; }
  void keep_time() noexcept { header().keeps_time = 1; }
  [[nodiscard]] std::atomic_ref<std::uint32_t> fired() const noexcept {
    return std::atomic_ref(header().fired);
  }

 private:
  struct alignas(64) Header {
    std::uint32_t hint_count = 0;
    std::uint32_t armed = 0;       // atomic; Arming
    std::uint32_t fired = 0;       // atomic; events that are due to whoever waits
    std::uint32_t keeps_time = 0;  // set before the first work queue comes
  };
  [[nodiscard]] Header& header() const noexcept { return *pointer_as<Header>(block_); }
  std::byte* block_ = nullptr;
  std::uint32_t hint_count_ = 0;
};

/// What a work queue has of its completion queue: its lane and the board. One producer each.
///
/// `fencing` says how the producer keeps its order against arm() and lower_hints(): kFenced if the
/// barrier that the owner calls there does not reach this process.
class CompletionPort {
 public:
  CompletionPort() noexcept = default;
  /// `hint` is the lane's on the board.
  CompletionPort(CompletionLane lane, CompletionBoard board, std::uint32_t hint,
                 Fencing fencing = Fencing::kFenced) noexcept
      : lane_(lane), board_(board), hint_(hint), index_(hint), fencing_(fencing) {}
  /// For the owner, who knows the lane by another index where several share a hint.
  [[nodiscard]] CompletionPort of_lane(std::uint32_t index) const noexcept {
    CompletionPort port = *this;
    port.index_ = index;
    return port;
  }
  /// The same for a producer who keeps its order so.
  [[nodiscard]] CompletionPort with(Fencing fencing) const noexcept {
    CompletionPort port = *this;
    port.fencing_ = fencing;
    return port;
  }

  /// Completions that the consumer has not collected.
  [[nodiscard]] std::uint32_t uncollected() const noexcept { return lane_.count(); }
  /// How many more have a place, if the work queue may have so many; at least one, if there is one.
  [[nodiscard]] std::uint32_t room(std::uint32_t places) noexcept {
    const std::uint32_t waiting = lane_.count_from(places);
    return waiting < places ? places - waiting : 0;
  }
  /// Whether more than so many wait to be collected.
  [[nodiscard]] bool has_more_than(std::uint32_t limit) noexcept {
    return lane_.count_from(limit + 1) > limit;
  }
  /// How many were ever published, and ever collected; both wrap.
  [[nodiscard]] std::uint32_t published() const noexcept {
    return lane_.exists() ? lane_.pushed() : 0;
  }
  [[nodiscard]] std::uint32_t collected() const noexcept { return lane_.collected(); }
  /// Whoever published has died: what it did not come to do is done. It may have disarmed the queue
  /// and not said so any more, so whoever waits for events gets one.
  void recover() noexcept {
    if (!lane_.exists()) return;
    const bool was_interrupted = lane_.recover();
    board_.hint(hint_).store(1, std::memory_order_release);  // pairs with is_hinted()
    if (!was_interrupted) return;
    board_.armed().store(0, std::memory_order_relaxed);
    board_.fired().fetch_add(1, std::memory_order_release);  // pairs with take_event()
  }
  /// Of the lane, and of its hint on the board.
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

/// A completion queue (IBA Vol 1, 10.8.6) as its owner sees it: the lanes that feed it, collected
/// in turn. Order holds within each lane, hence within each work queue, which is all that is
/// promised.
///
/// Storage for the lane list is the caller's. Thread: whoever holds the queue's lock polls,
/// attaches and arms; producers only use their CompletionPort.
class CompletionLanes {
 public:
  /// `lanes` are the places for lanes.
  CompletionLanes(CompletionBoard board, std::span<CompletionLane> lanes,
                  std::uint32_t capacity) noexcept
      : board_(board), lanes_(lanes), capacity_(capacity) {}

  /// More places for lanes, with those that are there at the front.
  void use_places(std::span<CompletionLane> lanes) noexcept { lanes_ = lanes; }
  /// Gives a work queue its port. kNoMemory when every place is taken.
  [[nodiscard]] Expected<CompletionPort> attach(CompletionLane lane) noexcept;
  /// Forgets the lane and what is still in it: its queue pair is gone.
  void detach(const CompletionPort& port) noexcept;

  /// Another lane takes the place of the port's, whose producer is left behind.
  [[nodiscard]] CompletionPort replace(const CompletionPort& port, CompletionLane lane) noexcept;

  /// Drops what waits in the lane: its queue pair was reset. No one publishes into it meanwhile.
  void discard(const CompletionPort& port) noexcept;

  /// Collects up to into.size() completions; returns how many.
  [[nodiscard]] std::size_t poll(std::span<Completion> into) noexcept;
  /// Whether so many lanes have run dry with their hints up that looking at them costs more than
  /// lowering the hints would: in a stream many, but few when there is nothing else to do.
  [[nodiscard]] bool has_stale_hints() const noexcept { return has_stale_hints_; }
  /// Lowers the hints of lanes that have run dry. `barrier` is as in arm(): a producer that has not
  /// seen its hint lowered has published before, and then its lane is no longer dry.
  void lower_hints(Barrier barrier = full_fence) noexcept;

  /// Asks for one event at the next completion that `what` matches. A completion that is published
  /// at the same time may not fire; then whoever polls after this finds it.
  ///
  /// `barrier` is a fence in every producer without one of its own, at one point of its publish():
  /// behind the store of the completion, and then the next poll sees it; or before, and then the
  /// producer sees the arming. It is membarrier(2) as soon as a producer is kExpedited.
  void arm(Arming what, Barrier barrier = full_fence) noexcept;
  [[nodiscard]] bool has_event() const noexcept {
    return board_.fired().load(std::memory_order_relaxed) != 0;
  }
  /// Whether an event is due; every arming that fired is one, and each is taken once.
  [[nodiscard]] bool take_event() noexcept {
    auto fired = board_.fired();
    if (fired.load(std::memory_order_acquire) == 0)
      return false;  // pairs with the port's fetch_add
    fired.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

  void keep_time() noexcept { board_.keep_time(); }
  /// Gives every completion that has no time yet this one. For owners whose programs ask for it;
  /// producers in other processes must have a clock of their own.
  void stamp(Instant now) noexcept;

  /// Completions that wait to be collected.
  [[nodiscard]] std::uint32_t waiting_count() const noexcept;
  [[nodiscard]] bool is_overrun() const noexcept { return waiting_count() > capacity_; }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  /// kInvalidArgument when more completions wait than would fit.
  [[nodiscard]] Status resize(std::uint32_t capacity) noexcept;

 private:
  /// Dry lanes with a raised hint that one poll puts up with, and that so many polls do which found
  /// nothing, one after the other.
  static constexpr std::uint32_t kStaleLimit = 64;
  static constexpr std::uint32_t kIdleStaleLimit = 8;
  static constexpr std::uint32_t kIdlePolls = 64;
  /// Asks for what the lanes of eight hints will be looked at for, where their hints say so.
  void expect(std::uint32_t hint) const noexcept;
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
  std::uint32_t hints_used_ = 0;     // hints below this index may be
  std::uint32_t lowest_free_ = 0;    // all places below this index are taken
  std::uint32_t turn_ = 0;           // the hint where the next look begins
  std::uint32_t rounds_ = 0;         // that looks have made over all hints
  std::uint32_t idle_polls_ = 0;     // in a row, that found nothing
  bool has_stale_hints_ = false;
};

}  // namespace verbatim::transport
