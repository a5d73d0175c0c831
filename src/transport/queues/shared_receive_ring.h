// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/acquire.h"
#include "base/expected.h"
#include "base/fence.h"
#include "base/pointer.h"
#include "memory/domain.h"
#include "transport/queues/receive_queue.h"

namespace verbatim::transport {

/// Receives that several queue pairs share (IBA Vol 1, 10.2.9). The owner posts. Any responder,
/// possibly in a peer process, claims an entry by one compare-and-swap that stores the claimant, so
/// that the entry of a claimant that died can be found and put back.
///
/// A view of a block of plain data that the caller provides. An entry is taken when a message
/// begins and released just before its completion is published, in any order, and some are held for
/// long. So the ring, which keeps the order of posting, holds the numbers of cells, and a receive
/// is posted into any free cell: an entry that is held costs the others one place and no more.
///
/// The claim word of a posted cell contains its place in the ring. So a claimant that was delayed
/// cannot claim a receive that was posted into the same cell later. Receives are claimed in order:
/// only the one at the head can be claimed.
class SharedReceiveRing {
 public:
  using Limits = ReceiveQueue::Limits;

  /// A claimed entry, and the cell it lies in.
  struct Claim {
    std::uint32_t cell = 0;
    const ReceiveEntry* entry = nullptr;  // null: nothing was posted
  };

  [[nodiscard]] static std::size_t octets_for(const Limits& limits) noexcept {
    const std::uint32_t cells = Limits::ring_size(limits.depth);
    return sizeof(Header) + order_octets(cells) +
           std::size_t{cells} * Limits::stride(limits.sge_limit);
  }

  SharedReceiveRing() noexcept = default;
  static SharedReceiveRing create(std::span<std::byte> block, memory::DomainId domain,
                                  const Limits& limits) noexcept;
  /// As ReceiveQueue::attach(). `fencing` is kFenced if the barrier that the owner gives to
  /// arm_limit() does not reach this process.
  static SharedReceiveRing attach(std::span<std::byte> room,
                                  Fencing fencing = Fencing::kExpedited) noexcept;

  [[nodiscard]] bool exists() const noexcept { return block_ != nullptr; }
  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }
  [[nodiscard]] std::uint32_t sge_limit() const noexcept { return sge_limit_; }
  [[nodiscard]] memory::DomainId domain() const noexcept { return domain_; }

  // The owner.
  [[nodiscard]] Status post(const ReceiveRequest& request) noexcept;
  /// Receives that are not claimed; one more while a claimant is about to move the head.
  [[nodiscard]] std::uint32_t waiting_count() const noexcept { return load_tail() - load_head(); }
  /// How many were ever posted; wraps.
  [[nodiscard]] std::uint32_t posted() const noexcept { return load_tail(); }
  /// An event is due once when fewer than `limit` receives wait; 0 disarms. kInvalidArgument beyond
  /// the depth. `barrier` is membarrier(2) as soon as claimants do not share the caller's lock: a
  /// claim then sees the limit, or is seen here.
  [[nodiscard]] Status arm_limit(std::uint32_t limit, Barrier barrier = full_fence) noexcept;
  [[nodiscard]] std::uint32_t limit() const noexcept {
    return std::atomic_ref(header().limit).load(std::memory_order_relaxed);
  }
  /// Whether the limit was reached since it was armed. The call clears that.
  [[nodiscard]] bool take_limit_event() noexcept {
    return std::atomic_ref(header().limit_reached).exchange(0, std::memory_order_acquire) != 0;
  }
  /// Whether that event waits to be taken.
  [[nodiscard]] bool has_limit_event() const noexcept {
    return std::atomic_ref(header().limit_reached).load(std::memory_order_relaxed) != 0;
  }
  /// Posts the receives again that `claimant` had claimed and not released. The caller has made
  /// sure that the claimant is not at work, and that none of these receives was or will be
  /// completed.
  void put_back(std::uint32_t claimant) noexcept;
  /// The same for one cell. False when `claimant` does not have it.
  bool put_back(std::uint32_t claimant, std::uint32_t cell) noexcept;
  [[nodiscard]] bool is_claimed_by(std::uint32_t claimant, std::uint32_t cell) const noexcept {
    return std::atomic_ref(entry(cell).claim).load(std::memory_order_acquire) == claimant;
  }

  // A responder.
  /// `claimant` names the queue pair on this host and has kClaimantBit.
  static constexpr std::uint32_t kClaimantBit = 0x8000'0000;
  [[nodiscard]] Claim claim(std::uint32_t claimant) noexcept;
  void release(std::uint32_t cell) noexcept;
  [[nodiscard]] const ReceiveEntry& at(std::uint32_t cell) const noexcept { return entry(cell); }
  [[nodiscard]] std::span<const memory::Sge> list_of(const ReceiveEntry& entry) const noexcept;

 private:
  // The claim word: a claimant, or one of these.
  static constexpr std::uint32_t kFree = 0;  // the cell may be posted into
  static constexpr std::uint32_t kPostedBit = 0x4000'0000;
  static constexpr std::uint32_t posted_at(std::uint32_t place) noexcept {
    return kPostedBit | (place & (kPostedBit - 1));
  }
  struct Header {
    std::uint32_t depth = 0;
    std::uint32_t sge_limit = 0;
    memory::DomainId domain = memory::DomainId::kNone;
    alignas(64) std::uint32_t tail = 0;  // atomic; entries ever posted
    std::uint32_t next_cell = 0;         // the owner's: where its search for a free cell begins
    alignas(64) std::uint32_t head = 0;  // atomic; places of the ring that are used up
    std::uint32_t limit = 0;             // atomic; 0: not armed
    std::uint32_t limit_reached = 0;     // atomic; set once when the limit fires
  };
  static std::size_t order_octets(std::uint32_t cells) noexcept {
    return (std::size_t{cells} * sizeof(std::uint32_t) + 63) & ~std::size_t{63};
  }
  [[nodiscard]] Header& header() const noexcept { return *pointer_as<Header>(block_); }
  /// The cell of the `number`th posted receive.
  [[nodiscard]] std::atomic_ref<std::uint32_t> order(std::uint32_t number) const noexcept {
    const std::size_t place = number & mask_;
    return std::atomic_ref(
        *pointer_as<std::uint32_t>(block_ + sizeof(Header) + place * sizeof(std::uint32_t)));
  }
  [[nodiscard]] ReceiveEntry& entry(std::uint32_t cell) const noexcept {
    return *pointer_as<ReceiveEntry>(block_ + sizeof(Header) + order_octets(mask_ + 1) +
                                     std::size_t{cell & mask_} * Limits::stride(sge_limit_));
  }
  [[nodiscard]] std::uint32_t load_tail() const noexcept {
    return load_acquire(header().tail);  // pairs with post()
  }
  [[nodiscard]] std::uint32_t load_head() const noexcept {
    return load_acquire(header().head);  // pairs with claim()
  }
  [[nodiscard]] std::optional<std::uint32_t> find_free_cell() noexcept;
  void queue_up(std::uint32_t cell) noexcept;
  void move_head_on() noexcept;
  void check_limit() noexcept;

  std::byte* block_ = nullptr;
  std::uint32_t depth_ = 0;
  std::uint32_t sge_limit_ = 0;
  std::uint32_t mask_ = 0;  // cells - 1, and places of the ring - 1
  memory::DomainId domain_ = memory::DomainId::kNone;
  Fencing fencing_ = Fencing::kExpedited;
};

}  // namespace verbatim::transport
