// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/acquire.h"
#include "base/expected.h"
#include "base/pointer.h"
#include "memory/scatter_gather.h"
#include "transport/queues/work.h"

namespace verbatim::transport {

/// One posted receive. Its scatter list follows in the same cell. Plain data.
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
/// process that maps it can make a view of its own. The view has its own copy of the limits:
/// whatever is written into the block, nothing outside of it is touched. The head moves after the
/// completion is published: a flush still finds the entry of a consumer that died. Each receive
/// ends in one completion in the lane of the queue. So the lane's counters decide how many places
/// are free: a receive that was posted and whose completion is not collected takes a place,
/// wherever the consumer is.
class ReceiveQueue {
 public:
  struct Limits {
    std::uint32_t depth = 0;      // entries
    std::uint32_t sge_limit = 0;  // scatter elements of one entry

    /// No queue is larger.
    [[nodiscard]] bool make_sense() const noexcept {
      return depth <= (1U << 24) && sge_limit <= (1U << 16);
    }
    /// The limits of the `Queue` whose `Header` lies at the beginning of `room`. Nothing when the
    /// octets there are no queue, or one that is longer than `room`.
    template <typename Queue, typename Header>
    [[nodiscard]] static std::optional<Limits> read(std::span<std::byte> room) noexcept {
      if (room.size() < sizeof(Header)) return std::nullopt;
      auto* header = pointer_as<Header>(room.data());
      // Each is read once: a peer may write there.
      const Limits limits{
          .depth = std::atomic_ref(header->depth).load(std::memory_order_relaxed),
          .sge_limit = std::atomic_ref(header->sge_limit).load(std::memory_order_relaxed)};
      if (!limits.make_sense() || Queue::octets_for(limits) > room.size()) return std::nullopt;
      return limits;
    }
    /// The places of a ring for so many entries.
    [[nodiscard]] static std::uint32_t ring_size(std::uint32_t depth) noexcept {
      return std::bit_ceil(depth == 0 ? 1U : depth);
    }
    /// The octets from one entry to the next.
    [[nodiscard]] static std::uint32_t stride(std::uint32_t sge_limit) noexcept {
      return static_cast<std::uint32_t>(sizeof(ReceiveEntry) + sge_limit * sizeof(memory::Sge));
    }
  };

  [[nodiscard]] static std::size_t octets_for(const Limits& limits) noexcept {
    return sizeof(Header) +
           std::size_t{Limits::ring_size(limits.depth)} * Limits::stride(limits.sge_limit);
  }

  ReceiveQueue() noexcept = default;
  /// Makes an empty queue in `block` (64-aligned, octets_for() octets).
  static ReceiveQueue create(std::span<std::byte> block, const Limits& limits) noexcept;
  /// A view of the queue at the beginning of `room` (64-aligned). exists() is false when the
  /// octets there are no queue, or one that is longer than `room`.
  static ReceiveQueue attach(std::span<std::byte> room) noexcept;

  [[nodiscard]] bool exists() const noexcept { return block_ != nullptr; }
  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }
  [[nodiscard]] std::uint32_t sge_limit() const noexcept { return sge_limit_; }

  // The owner.
  /// `collected` is how many completions were ever taken out of the lane of this queue. kNoMemory
  /// when the queue is full of receives whose completions are not collected.
  [[nodiscard]] Status post(const ReceiveRequest& request, std::uint32_t collected) noexcept {
    Header& h = header();
    if (request.list.size() > sge_limit_) return Errc::kInvalidArgument;
    const std::uint32_t tail = h.tail;
    // The head does not decide: between a completion and the move of the head, a receive would
    // count twice or not at all. A cell whose completion was collected is free even if the head has
    // not passed it yet: the consumer has read the cell before it published the completion.
    if (tail - h.dropped - collected >= depth_) return Errc::kNoMemory;
    ReceiveEntry& cell = entry(tail);
    cell = {.wr_id = request.wr_id,
            .sge_count = static_cast<std::uint32_t>(request.list.size()),
            .claim = 0};
    auto* const list = pointer_as<memory::Sge>(&cell + 1);
    if (request.list.size() == 1) [[likely]] {
      *list = request.list.front();  // without a call
    } else {
      std::ranges::copy(request.list, list);
    }
    std::atomic_ref(h.tail).store(tail + 1, std::memory_order_release);  // pairs with load_tail()
    return Ok{};
  }
  [[nodiscard]] std::uint32_t posted_count() const noexcept { return load_tail() - load_head(); }
  /// How many were ever posted; wraps.
  [[nodiscard]] std::uint32_t posted() const noexcept { return load_tail(); }
  /// Drops all receives: the queue pair goes to RESET. `published` is how many completions were
  /// ever put into its lane. Not while the consumer is at work.
  void clear(std::uint32_t published) noexcept;
  /// The consumer has died: if it had published the completion of the front receive and not moved
  /// the head, this moves it.
  void finish_pop(std::uint32_t published) noexcept;
  /// The same queue in another block, with its receives. A consumer that is at work continues in
  /// the old block.
  [[nodiscard]] ReceiveQueue move_to(std::span<std::byte> block) const noexcept;

  // The consumer.
  [[nodiscard]] const ReceiveEntry* front() const noexcept {
    const std::uint32_t head = load_head();
    // The tail lies in a line that the owner writes: it is read only when the last known tail is
    // not sufficient. After clear() the head may be beyond the last known tail.
    const std::atomic_ref seen(header().tail_seen);
    if (!is_before(head, seen.load(std::memory_order_relaxed))) {
      seen.store(load_tail(), std::memory_order_relaxed);
      if (!is_before(head, seen.load(std::memory_order_relaxed))) return nullptr;
    }
    return &entry(head);
  }
  void pop() noexcept {
    // pairs with the acquire in posted_count(): the cell is free once the owner sees it
    std::atomic_ref(header().head).store(load_head() + 1, std::memory_order_release);
  }
  /// Prefetches the line of the next receive, which the owner has written.
  void prefetch_next() const noexcept { __builtin_prefetch(&entry(load_head())); }
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
    std::uint32_t dropped = 0;  // the owner's: entries that clear() dropped, less completions
    alignas(64) std::uint32_t head = 0;  // atomic; entries ever consumed, written by the consumer
    std::uint32_t tail_seen = 0;         // the consumer's: the tail that it read last
  };
  static bool is_before(std::uint32_t head, std::uint32_t tail) noexcept {
    return static_cast<std::int32_t>(tail - head) > 0;
  }
  [[nodiscard]] Header& header() const noexcept { return *pointer_as<Header>(block_); }
  [[nodiscard]] ReceiveEntry& entry(std::uint32_t number) const noexcept {
    return *pointer_as<ReceiveEntry>(block_ + sizeof(Header) +
                                     std::size_t{place_of(number)} * Limits::stride(sge_limit_));
  }
  /// Neighbours lie half a ring apart. If they shared a cache line, the owner, which replaces a
  /// receive, would take from the consumer the line of the next one.
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
