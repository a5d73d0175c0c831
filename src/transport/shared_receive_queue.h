// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/expected.h"
#include "memory/domain.h"
#include "transport/receive_queue.h"

namespace verbatim::transport {

/// Receives that several queue pairs share (IBA Vol 1, 10.2.9). The owner posts; any responder,
/// possibly in a peer process, claims an entry by one compare-and-swap that records who claims it,
/// so that the entry of a claimant that died can be found and given back.
///
/// A view of a block of plain data that the caller provides. An entry is taken when a message
/// begins and released when its completion is published, in any order, and some are held for long.
/// So the ring that keeps the order of posting names slots, and a receive is posted into whichever
/// slot is free: one that is held costs the others one place and no more.
class SharedReceiveQueue {
 public:
  using Limits = ReceiveQueue::Limits;

  /// A claimed entry, and the slot it lies in.
  struct Claim {
    std::uint32_t slot = 0;
    const ReceiveEntry* entry = nullptr;  // null: nothing was posted
  };

  [[nodiscard]] static std::size_t octets_for(const Limits& limits) noexcept {
    const std::uint32_t slots = ring_size(limits.depth);
    return sizeof(Header) + order_octets(slots) + std::size_t{slots} * stride(limits.sge_limit);
  }

  SharedReceiveQueue() noexcept = default;
  static SharedReceiveQueue create(std::span<std::byte> block, memory::DomainId domain,
                                   const Limits& limits) noexcept;
  static SharedReceiveQueue attach(std::byte* block) noexcept {
    SharedReceiveQueue queue;
    queue.block_ = block;
    return queue;
  }

  [[nodiscard]] bool exists() const noexcept { return block_ != nullptr; }
  [[nodiscard]] std::uint32_t depth() const noexcept { return header().depth; }
  [[nodiscard]] std::uint32_t sge_limit() const noexcept { return header().sge_limit; }
  [[nodiscard]] memory::DomainId domain() const noexcept { return header().domain; }

  // The owner.
  [[nodiscard]] Status post(const ReceiveRequest& request) noexcept;
  /// Receives that nobody has claimed.
  [[nodiscard]] std::uint32_t waiting_count() const noexcept { return load_tail() - load_head(); }
  /// An event is due once when fewer than `limit` receives wait; 0 disarms. kInvalidArgument beyond
  /// the depth.
  [[nodiscard]] Status arm_limit(std::uint32_t limit) noexcept;
  [[nodiscard]] std::uint32_t limit() const noexcept {
    return std::atomic_ref(header().limit).load(std::memory_order_relaxed);
  }
  /// Whether the limit was reached since it was armed; asking clears it.
  [[nodiscard]] bool take_limit_event() noexcept {
    return std::atomic_ref(header().limit_reached).exchange(0, std::memory_order_acquire) != 0;
  }
  /// Gives back what `claimant` had claimed and not released.
  void reclaim(std::uint32_t claimant) noexcept;

  // A responder.
  /// `claimant` is not zero and names the queue pair on this host.
  [[nodiscard]] Claim claim(std::uint32_t claimant) noexcept;
  void release(std::uint32_t slot) noexcept;
  [[nodiscard]] const ReceiveEntry& at(std::uint32_t slot) const noexcept { return entry(slot); }
  [[nodiscard]] std::span<const memory::Sge> list_of(const ReceiveEntry& entry) const noexcept;

 private:
  static constexpr std::uint32_t kFree = 0;              // claim word: the slot may be posted into
  static constexpr std::uint32_t kPosted = 0xffff'ffff;  // claim word: waits for a claimant
  struct Header {
    std::uint32_t depth = 0;
    std::uint32_t sge_limit = 0;
    std::uint32_t stride = 0;  // octets from slot to slot
    std::uint32_t mask = 0;    // slots - 1, and places of the ring - 1
    memory::DomainId domain = memory::DomainId::kNone;
    alignas(64) std::uint32_t tail = 0;  // atomic; entries ever posted
    std::uint32_t next_slot = 0;         // the owner's: where it looks for a free one
    alignas(64) std::uint32_t head = 0;  // atomic; places of the ring that are used up
    std::uint32_t limit = 0;             // atomic; 0: not armed
    std::uint32_t limit_reached = 0;     // atomic; set once when the limit fires
  };
  static std::uint32_t ring_size(std::uint32_t depth) noexcept {
    return std::bit_ceil(depth == 0 ? 1U : depth);
  }
  static std::uint32_t stride(std::uint32_t sge_limit) noexcept {
    return static_cast<std::uint32_t>(sizeof(ReceiveEntry) + sge_limit * sizeof(memory::Sge));
  }
  static std::size_t order_octets(std::uint32_t slots) noexcept {
    return (std::size_t{slots} * sizeof(std::uint32_t) + 63) & ~std::size_t{63};
  }
  [[nodiscard]] Header& header() const noexcept { return *std::bit_cast<Header*>(block_); }
  /// Which slot the `number`th posted receive lies in.
  [[nodiscard]] std::atomic_ref<std::uint32_t> order(std::uint32_t number) const noexcept {
    const std::size_t place = number & header().mask;
    return std::atomic_ref(
        *std::bit_cast<std::uint32_t*>(block_ + sizeof(Header) + place * sizeof(std::uint32_t)));
  }
  [[nodiscard]] ReceiveEntry& entry(std::uint32_t slot) const noexcept {
    const Header& h = header();
    return *std::bit_cast<ReceiveEntry*>(block_ + sizeof(Header) + order_octets(h.mask + 1) +
                                         std::size_t{slot & h.mask} * h.stride);
  }
  [[nodiscard]] std::uint32_t load_tail() const noexcept {
    return std::atomic_ref(header().tail).load(std::memory_order_acquire);  // pairs with post()
  }
  [[nodiscard]] std::uint32_t load_head() const noexcept {
    return std::atomic_ref(header().head).load(std::memory_order_acquire);  // pairs with claim()
  }
  [[nodiscard]] std::optional<std::uint32_t> find_free_slot() noexcept;
  void check_limit() noexcept;

  std::byte* block_ = nullptr;
};

}  // namespace verbatim::transport
