// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
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
/// begins and released when its completion is published; entries may be released in another order
/// than they were taken, which is why a slot is reused only when it is free, not when the head has
/// passed it.
class SharedReceiveQueue {
 public:
  using Limits = ReceiveQueue::Limits;

  /// A claimed entry: which slot it lies in, by position in the ring.
  struct Claim {
    std::uint32_t slot = 0;
    const ReceiveEntry* entry = nullptr;  // null: nothing was posted
  };

  [[nodiscard]] static std::size_t octets_for(const Limits& limits) noexcept {
    return sizeof(Header) + std::size_t{ring_size(limits.depth)} * stride(limits.sge_limit);
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
    std::uint32_t stride = 0;
    std::uint32_t mask = 0;
    memory::DomainId domain = memory::DomainId::kNone;
    alignas(64) std::uint32_t tail = 0;  // atomic; entries ever posted
    alignas(64) std::uint32_t head = 0;  // atomic; entries ever claimed
    std::uint32_t limit = 0;             // atomic; 0: not armed
    std::uint32_t limit_reached = 0;     // atomic; set once when the limit fires
  };
  static std::uint32_t ring_size(std::uint32_t depth) noexcept {
    return std::bit_ceil(depth == 0 ? 1U : depth);
  }
  static std::uint32_t stride(std::uint32_t sge_limit) noexcept {
    return static_cast<std::uint32_t>(sizeof(ReceiveEntry) + sge_limit * sizeof(memory::Sge));
  }
  [[nodiscard]] Header& header() const noexcept { return *std::bit_cast<Header*>(block_); }
  [[nodiscard]] ReceiveEntry& entry(std::uint32_t number) const noexcept {
    const Header& h = header();
    return *std::bit_cast<ReceiveEntry*>(block_ + sizeof(Header) +
                                         std::size_t{number & h.mask} * h.stride);
  }
  [[nodiscard]] std::uint32_t load_tail() const noexcept {
    return std::atomic_ref(header().tail).load(std::memory_order_acquire);  // pairs with post()
  }
  [[nodiscard]] std::uint32_t load_head() const noexcept {
    return std::atomic_ref(header().head).load(std::memory_order_acquire);  // pairs with claim()
  }
  void check_limit() noexcept;

  std::byte* block_ = nullptr;
};

}  // namespace verbatim::transport
