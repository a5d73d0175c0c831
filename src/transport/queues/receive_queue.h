// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/acquire.h"
#include "base/expected.h"
#include "base/pointer.h"
#include "memory/scatter_gather.h"
#include "transport/queues/work.h"

namespace verbatim::transport {

/// One posted receive: its head; its scatter list follows in the same slot. Plain data.
struct ReceiveEntry {
  std::uint64_t wr_id = 0;
  std::uint32_t sge_count = 0;
  std::uint32_t claim = 0;  // atomic; shared queues only, see SharedReceiveRing
};
static_assert(sizeof(ReceiveEntry) == sizeof(memory::Sge));

/// The posted receives of one queue pair (IBA Vol 1, 10.8.2): a ring with one producer, the owner,
/// and one consumer, the responder, which may be a peer process.
///
/// A view of a block of plain data that the caller provides; the block holds no pointer, so any
/// process that maps it can make a view of its own. How large it is the view knows for itself:
/// whatever becomes of the block, nothing outside of it is touched. The head moves after the
/// completion is published: a consumer that dies leaves an entry that a flush still finds. Each
/// receive ends in one completion in the lane of the queue, so the lane's counters say exactly what
/// became of them: what was posted and not collected takes a place, wherever the consumer is just
/// now.
class ReceiveQueue {
 public:
  struct Limits {
    std::uint32_t depth = 0;      // entries
    std::uint32_t sge_limit = 0;  // scatter elements of one entry

    /// No queue is larger.
    [[nodiscard]] bool make_sense() const noexcept {
      return depth <= (1U << 24) && sge_limit <= (1U << 16);
    }
  };

  [[nodiscard]] static std::size_t octets_for(const Limits& limits) noexcept {
    return sizeof(Header) + std::size_t{ring_size(limits.depth)} * stride(limits.sge_limit);
  }

  ReceiveQueue() noexcept = default;
  /// Makes an empty queue in `block` (64-aligned, octets_for() octets).
  static ReceiveQueue create(std::span<std::byte> block, const Limits& limits) noexcept;
  /// Looks at a queue that somebody made at the beginning of `room` (64-aligned). None exists()
  /// when what stands there is no queue, or a longer one than there is room.
  static ReceiveQueue attach(std::span<std::byte> room) noexcept;

  [[nodiscard]] bool exists() const noexcept { return block_ != nullptr; }
  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }
  [[nodiscard]] std::uint32_t sge_limit() const noexcept { return sge_limit_; }

  // The owner.
  /// `collected` is how many completions were ever taken out of the lane of this queue. kNoMemory
  /// when as many receives as it is deep have been posted beyond that.
  [[nodiscard]] Status post(const ReceiveRequest& request, std::uint32_t collected) noexcept {
    Header& h = header();
    if (request.list.size() > sge_limit_) return Errc::kInvalidArgument;
    const std::uint32_t tail = h.tail;
    // Not by the head: between a completion and the move of the head, a receive would count twice
    // or not at all. A slot whose completion was collected is free even if the head has yet to pass
    // it, for the consumer has read it before it published.
    if (tail - h.dropped - collected >= depth_) return Errc::kNoMemory;
    ReceiveEntry& slot = entry(tail);
    slot = {.wr_id = request.wr_id,
            .sge_count = static_cast<std::uint32_t>(request.list.size()),
            .claim = 0};
    auto* const list = pointer_as<memory::Sge>(&slot + 1);
    if (request.list.size() == 1) [[likely]] {
      *list = request.list.front();  // and no call
    } else {
      std::ranges::copy(request.list, list);
    }
    std::atomic_ref(h.tail).store(tail + 1, std::memory_order_release);  // pairs with load_tail()
    return Ok{};
  }
  [[nodiscard]] std::uint32_t posted_count() const noexcept { return load_tail() - load_head(); }
  /// How many were ever posted; wraps.
  [[nodiscard]] std::uint32_t posted() const noexcept { return load_tail(); }
  /// Forgets everything: a queue pair that goes to RESET. `published` is how many completions were
  /// ever put into its lane. Not while the consumer is at work.
  void clear(std::uint32_t published) noexcept;
  /// The consumer has died: if it had published the completion of the front receive and not taken
  /// it away, this does.
  void finish_pop(std::uint32_t published) noexcept;
  /// The same queue in another block, with all that is in it. The consumer may be anywhere, and is
  /// left behind with the old one.
  [[nodiscard]] ReceiveQueue move_to(std::span<std::byte> block) const noexcept;

  // The consumer.
  [[nodiscard]] const ReceiveEntry* front() const noexcept {
    const std::uint32_t head = load_head();
    // The tail lies in a line that the owner writes: it is only read when it may have to be. What
    // clear() forgot may be beyond what was seen.
    const std::atomic_ref seen(header().tail_seen);
    if (!is_before(head, seen.load(std::memory_order_relaxed))) {
      seen.store(load_tail(), std::memory_order_relaxed);
      if (!is_before(head, seen.load(std::memory_order_relaxed))) return nullptr;
    }
    return &entry(head);
  }
  void pop() noexcept {
    // pairs with the acquire in posted_count(): the slot is free once the owner sees it
    std::atomic_ref(header().head).store(load_head() + 1, std::memory_order_release);
  }
  /// The next receive will be looked at soon: its line is fetched from the owner meanwhile.
  void expect_next() const noexcept { __builtin_prefetch(&entry(load_head())); }
  [[nodiscard]] std::span<const memory::Sge> list_of(const ReceiveEntry& entry) const noexcept {
    // The count is read once and bounded: the entry may lie in memory that a peer can write.
    const std::uint32_t count = std::min(entry.sge_count, sge_limit_);
    return {pointer_as<const memory::Sge>(&entry + 1), count};
  }

 private:
  struct Header {
    std::uint32_t depth = 0;
    std::uint32_t sge_limit = 0;
    alignas(64) std::uint32_t tail = 0;  // atomic; entries ever posted, written by the owner
    std::uint32_t dropped = 0;  // the owner's: entries that clear() forgot, less completions
    alignas(64) std::uint32_t head = 0;  // atomic; entries ever consumed, written by the consumer
    std::uint32_t tail_seen = 0;         // the consumer's: the tail when it last looked
  };
  static bool is_before(std::uint32_t head, std::uint32_t tail) noexcept {
    return static_cast<std::int32_t>(tail - head) > 0;
  }
  static std::uint32_t ring_size(std::uint32_t depth) noexcept {
    return std::bit_ceil(depth == 0 ? 1U : depth);
  }
  static std::uint32_t stride(std::uint32_t sge_limit) noexcept {
    return static_cast<std::uint32_t>(sizeof(ReceiveEntry) + sge_limit * sizeof(memory::Sge));
  }
  [[nodiscard]] Header& header() const noexcept { return *pointer_as<Header>(block_); }
  [[nodiscard]] ReceiveEntry& entry(std::uint32_t number) const noexcept {
    return *pointer_as<ReceiveEntry>(block_ + sizeof(Header) +
                                     std::size_t{place_of(number)} * stride(sge_limit_));
  }
  /// Neighbours lie half a ring apart. In one line, the receive that the consumer needs next would
  /// be taken from it by the owner, who replaces the one before it.
  [[nodiscard]] std::uint32_t place_of(std::uint32_t number) const noexcept {
    const std::uint32_t half = (mask_ + 1) / 2;
    return (number & mask_) / 2 + (number & 1) * half;
  }
  [[nodiscard]] std::uint32_t load_tail() const noexcept {
    return load_acquire(header().tail);  // pairs with post()
  }
  [[nodiscard]] std::uint32_t load_head() const noexcept {
    return load_acquire(header().head);  // pairs with pop()
  }

  std::byte* block_ = nullptr;  // the caller's, as long as the queue pair
  std::uint32_t depth_ = 0;
  std::uint32_t sge_limit_ = 0;
  std::uint32_t mask_ = 0;  // ring size - 1
};

}  // namespace verbatim::transport
