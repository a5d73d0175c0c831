// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/acquire.h"
#include "base/assert.h"
#include "base/fence.h"
#include "base/pointer.h"
#include "base/time.h"
#include "transport/queues/work.h"

namespace verbatim::transport {

/// The timestamp of a completion that was made at this time.
[[nodiscard]] inline std::uint64_t stamp_of(Instant at) noexcept {
  return static_cast<std::uint64_t>(at.since_start().count());
}

/// The completions of one work queue on their way to its completion queue: a ring with one
/// producer, the thread that executes the work, and one consumer, the thread that polls. It is as
/// deep as the work queue, and a request is accepted only while its completion has a place here, so
/// push() never finds it full.
///
/// Every place is a cache line of its own and holds the number of its completion. So a poll waits
/// for one line, the one with the completion, and not first for a counter. The producer stores its
/// counter after the completion; recover() repairs the counter if the producer died in between.
///
/// A view of a block of plain data that the caller provides. Several views may produce, one at a
/// time; one view collects. The consumer keeps its position in the view and only publishes it in
/// the block: reading it back could mean waiting for a line that the producer reads.
class CompletionLane {
 public:
  [[nodiscard]] static std::size_t octets_for(std::uint32_t depth) noexcept {
    return sizeof(Header) + std::size_t{ring_size(depth)} * sizeof(Place);
  }

  CompletionLane() noexcept = default;
  static CompletionLane create(std::span<std::byte> block, std::uint32_t depth) noexcept;
  /// A view of the lane at the beginning of `room` (64-aligned). exists() is false when the
  /// octets there are no lane, or one that is longer than `room`.
  static CompletionLane attach(std::span<std::byte> room) noexcept;
  /// The same lane in another block, with its completions. For the consumer; a producer that is at
  /// work continues in the old block, which is no longer collected.
  [[nodiscard]] CompletionLane move_to(std::span<std::byte> block) const noexcept;
  [[nodiscard]] bool exists() const noexcept { return block_ != nullptr; }

  /// Completions that are not collected. The consumer may be a step ahead of the counter.
  [[nodiscard]] std::uint32_t count() const noexcept {
    const std::uint32_t count = load_tail() - load_head();
    return static_cast<std::int32_t>(count) < 0 ? 0 : count;
  }
  /// The same for the producer. A result below `enough` may be too large. The head lies in a line
  /// that the consumer writes, so it is read only when the last known head is not sufficient.
  [[nodiscard]] std::uint32_t count_from(std::uint32_t enough) noexcept {
    Header& h = header();
    const std::uint32_t tail = h.tail;
    if (tail - h.head_seen >= enough) h.head_seen = load_head();
    const std::uint32_t count = tail - h.head_seen;
    return static_cast<std::int32_t>(count) < 0 ? 0 : count;
  }
  /// How many were ever pushed, and ever collected; both wrap.
  [[nodiscard]] std::uint32_t pushed() const noexcept { return load_tail(); }
  [[nodiscard]] std::uint32_t collected() const noexcept { return load_head(); }
  [[nodiscard]] std::uint32_t depth() const noexcept { return mask_ + 1; }

  // The producer.
  [[nodiscard]] bool push(const Completion& completion) noexcept {
    if (!put(completion)) return false;
    count_put();
    return true;
  }
  /// The same in two steps, put() and count_put(). After put() the completion can be collected. If
  /// the producer dies between the two, the rest of its work is undone, see recover(). False when
  /// the lane is full, which does not happen to a lane as deep as its work queue.
  [[nodiscard, gnu::always_inline]] bool put(const Completion& completion) noexcept {
    Header& h = header();
    const std::uint32_t tail = h.tail;
    // The head lies in a line that the consumer writes: it is read only when the last known head is
    // not sufficient.
    if (tail - h.head_seen > mask_) [[unlikely]] {
      h.head_seen = load_head();
      if (tail - h.head_seen > mask_) return false;
    }
    Place& at = place(tail);
    // The consumer reads ahead into places that are not written yet. The line is fetched back
    // before the message that needs it.
    __builtin_prefetch(&place(tail + 2), 1);
    at.completion.assign(completion);
    std::atomic_ref(at.serial).store(tail + 1, std::memory_order_release);  // pairs with holds()
    return true;
  }
  void count_put() noexcept {
    compiler_barrier();  // the counter is stored last: recover() relies on that
    Header& h = header();
    std::atomic_ref(h.tail).store(h.tail + 1, std::memory_order_relaxed);
  }
  /// The producer has died, and another one takes its place. True when the dead one had published a
  /// completion that it had not counted.
  bool recover() noexcept {
    Header& h = header();
    const bool is_behind = holds(h.tail);
    if (is_behind) std::atomic_ref(h.tail).store(h.tail + 1, std::memory_order_relaxed);
    return is_behind;
  }

  // The consumer, while no producer is at work.
  /// Sets the timestamp of the newest completions that have none.
  void stamp(Instant now) noexcept {
    const std::uint64_t timestamp = stamp_of(now);
    const std::uint32_t head = load_head();
    for (std::uint32_t i = load_tail(); i != head && !is_stamped(i - 1); --i) {
      place(i - 1).completion.timestamp = timestamp;
    }
  }

  // The consumer.
  [[nodiscard]] bool pop(Completion& into) noexcept {
    if (!holds(next_)) return false;
    into = place(next_).completion;
    ++next_;
    std::atomic_ref(header().head)
        .store(next_, std::memory_order_release);  // pairs with load_head()
    return true;
  }
  /// Whether pop() would find a completion.
  [[nodiscard]] bool has_next() const noexcept { return holds(next_); }
  /// Prefetches the place that the next pop() reads.
  void prefetch() const noexcept { __builtin_prefetch(&place(next_)); }

 private:
  struct Header {
    std::uint32_t mask = 0;
    alignas(64) std::uint32_t tail = 0;  // atomic; completions ever pushed
    std::uint32_t head_seen = 0;         // the producer's: the head that it read last
    alignas(64) std::uint32_t head = 0;  // atomic; completions ever collected
  };
  static std::uint32_t ring_size(std::uint32_t depth) noexcept {
    return std::bit_ceil(depth == 0 ? 1U : depth);
  }
  [[nodiscard]] Header& header() const noexcept { return *pointer_as<Header>(block_); }
  struct alignas(64) Place {
    Completion completion;
    std::uint32_t serial = 0;  // atomic; the number of the completion that it holds, from one on
  };
  static_assert(sizeof(Place) == 64);
  [[nodiscard]] Place& place(std::uint32_t number) const noexcept {
    return *pointer_as<Place>(block_ + sizeof(Header) +
                              std::size_t{number & mask_} * sizeof(Place));
  }
  [[nodiscard]] bool holds(std::uint32_t number) const noexcept {
    return load_acquire(place(number).serial) == number + 1;  // pairs with push()
  }
  [[nodiscard]] bool is_stamped(std::uint32_t number) const noexcept {
    return place(number).completion.timestamp != 0;
  }
  [[nodiscard]] std::uint32_t load_tail() const noexcept {
    return std::atomic_ref(header().tail).load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t load_head() const noexcept {
    return load_acquire(header().head);  // pairs with pop()
  }

  std::byte* block_ = nullptr;  // the caller's, 64-aligned
  std::uint32_t mask_ = 0;      // as read when the view was made; the block may change
  std::uint32_t next_ = 0;      // the consumer's: the number that it collects next
};

inline CompletionLane CompletionLane::create(std::span<std::byte> block,
                                             std::uint32_t depth) noexcept {
  VB_ASSERT(block.size() >= octets_for(depth));
  auto* header = new (block.data()) Header;
  header->mask = ring_size(depth) - 1;
  const CompletionLane lane = attach(block);
  for (std::uint32_t i = 0; i < ring_size(depth); ++i) lane.place(i).serial = 0;
  return lane;
}

inline CompletionLane CompletionLane::attach(std::span<std::byte> room) noexcept {
  if (room.size() < sizeof(Header)) return {};
  const std::uint32_t mask = std::atomic_ref(pointer_as<Header>(room.data())->mask)
                                 .load(std::memory_order_relaxed);  // once
  const bool fits = std::has_single_bit(std::uint64_t{mask} + 1) && mask <= (1U << 24) &&
                    octets_for(mask + 1) <= room.size();
  if (!fits) return {};
  CompletionLane lane;
  lane.block_ = room.data();
  lane.mask_ = mask;
  lane.next_ = lane.load_head();
  return lane;
}

inline CompletionLane CompletionLane::move_to(std::span<std::byte> block) const noexcept {
  CompletionLane moved = create(block, mask_ + 1);
  Header& to = moved.header();
  const std::uint32_t head = load_head();
  // The producer may be at work, or its counter may be wrong: the serials decide, not the counter.
  std::uint32_t tail = head;
  for (; tail - head <= mask_ && holds(tail); ++tail) moved.place(tail) = place(tail);
  // The other places get the serials of the previous lap: zero could be a valid serial.
  const std::uint32_t lap = mask_ + 1;
  for (std::uint32_t i = tail; i != head + lap; ++i) moved.place(i).serial = i + 1 - lap;
  to.tail = tail;
  to.head = to.head_seen = moved.next_ = head;
  return moved;
}

}  // namespace verbatim::transport
