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

/// How a completion says when it was made.
[[nodiscard]] inline std::uint64_t stamp_of(Instant at) noexcept {
  return static_cast<std::uint64_t>(at.since_start().count());
}

/// The completions of one work queue on their way to its completion queue: a ring with one
/// producer, whoever executes the work, and one consumer, whoever polls. It is as deep as the work
/// queue, and a request is only accepted while its completion has a place here, so push() cannot
/// find it full.
///
/// Every place is a cache line of its own and says itself which completion it holds: who polls
/// waits for the one line that brings the completion, not first for a counter that announces it.
/// The producer's counter follows behind; recover() makes up for a producer that died between.
///
/// A view of a block of plain data that the caller provides. Anyone may produce through any view,
/// in turns; one view collects. It knows by itself how far it is, and only says so in the block:
/// reading that back would be waiting for a line that the producer may just be looking at.
class CompletionLane {
 public:
  [[nodiscard]] static std::size_t octets_for(std::uint32_t depth) noexcept {
    return sizeof(Header) + std::size_t{ring_size(depth)} * sizeof(Place);
  }

  CompletionLane() noexcept = default;
  static CompletionLane create(std::span<std::byte> block, std::uint32_t depth) noexcept;
  /// Looks at a lane that somebody made at the beginning of `room` (64-aligned). None exists() when
  /// what stands there is no lane, or a longer one than there is room.
  static CompletionLane attach(std::span<std::byte> room) noexcept;
  /// The same lane in another block, with all that is in it: for its consumer, who leaves the
  /// producer behind with the old one, wherever it is.
  [[nodiscard]] CompletionLane move_to(std::span<std::byte> block) const noexcept;
  [[nodiscard]] bool exists() const noexcept { return block_ != nullptr; }

  /// Completions that nobody has collected. The consumer may be a step ahead of the counter.
  [[nodiscard]] std::uint32_t count() const noexcept {
    const std::uint32_t count = load_tail() - load_head();
    return static_cast<std::int32_t>(count) < 0 ? 0 : count;
  }
  /// The same for the producer, who has no use for it below `enough`: there it may be too many. The
  /// head lies in a line that the consumer writes, so it is only read when it may have to be.
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
  /// The same in two steps. From put() on it can be collected; whoever dies before it was counted
  /// has left the rest of its work undone, see recover(). False when the lane is full, which for a
  /// lane as deep as its work queue never happens.
  [[nodiscard, gnu::always_inline]] bool put(const Completion& completion) noexcept {
    Header& h = header();
    const std::uint32_t tail = h.tail;
    // The head lies in a line that the consumer writes: it is only read when it may have to be.
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
    compiler_barrier();  // last: who dies before has not counted it
    Header& h = header();
    std::atomic_ref(h.tail).store(h.tail + 1, std::memory_order_relaxed);  // for those who count
  }
  /// The producer has died, and somebody else goes on in its place. True when it had published one
  /// that it did not count.
  bool recover() noexcept {
    Header& h = header();
    const bool is_behind = holds(h.tail);
    if (is_behind) std::atomic_ref(h.tail).store(h.tail + 1, std::memory_order_relaxed);
    return is_behind;
  }

  // The consumer, while nobody produces.
  /// Gives the newest completions that have no time yet this one.
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
  /// Whether pop() would find one.
  [[nodiscard]] bool has_next() const noexcept { return holds(next_); }
  /// Asks early for what the next pop() looks at.
  void expect() const noexcept { __builtin_prefetch(&place(next_)); }

 private:
  struct Header {
    std::uint32_t mask = 0;
    alignas(64) std::uint32_t tail = 0;  // atomic; completions ever pushed
    std::uint32_t head_seen = 0;         // the producer's: the head when it last looked
    alignas(64) std::uint32_t head = 0;  // atomic; completions ever collected
  };
  static std::uint32_t ring_size(std::uint32_t depth) noexcept {
    return std::bit_ceil(depth == 0 ? 1U : depth);
  }
  [[nodiscard]] Header& header() const noexcept { return *pointer_as<Header>(block_); }
  struct alignas(64) Place {
    Completion completion;
    std::uint32_t serial = 0;  // atomic; which one it holds, counted from one
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
  std::uint32_t mask_ = 0;      // as when the view was made, whatever the block says now
  std::uint32_t next_ = 0;      // the consumer's: which one it collects next
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
  // The producer may be at work, or lie: what is there the places say, not its counter.
  std::uint32_t tail = head;
  for (; tail - head <= mask_ && holds(tail); ++tail) moved.place(tail) = place(tail);
  // The others are a lap behind: a zero could be the serial of one.
  const std::uint32_t lap = mask_ + 1;
  for (std::uint32_t i = tail; i != head + lap; ++i) moved.place(i).serial = i + 1 - lap;
  to.tail = tail;
  to.head = to.head_seen = moved.next_ = head;
  return moved;
}

}  // namespace verbatim::transport
