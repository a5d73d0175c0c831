// SPDX-License-Identifier: Apache-2.0
#include "transport/shared_receive_queue.h"

#include <algorithm>
#include <new>

namespace verbatim::transport {

SharedReceiveQueue SharedReceiveQueue::create(std::span<std::byte> block, memory::DomainId domain,
                                              const Limits& limits) noexcept {
  VB_ASSERT(block.size() >= octets_for(limits));
  auto* header = new (block.data()) Header;
  header->depth = limits.depth;
  header->sge_limit = limits.sge_limit;
  header->stride = stride(limits.sge_limit);
  header->mask = ring_size(limits.depth) - 1;
  header->domain = domain;
  auto queue = attach(block.data());
  for (std::uint32_t i = 0; i <= header->mask; ++i) queue.entry(i) = ReceiveEntry{};
  return queue;
}

Status SharedReceiveQueue::post(const ReceiveRequest& request) noexcept {
  Header& h = header();
  if (request.list.size() > h.sge_limit) return Errc::kInvalidArgument;
  if (h.tail - load_head() >= h.depth) return Errc::kNoMemory;
  const auto free = find_free_slot();
  if (!free) return Errc::kNoMemory;
  ReceiveEntry& slot = entry(*free);
  slot.wr_id = request.wr_id;
  slot.sge_count = static_cast<std::uint32_t>(request.list.size());
  std::ranges::copy(request.list, std::bit_cast<memory::Sge*>(&slot + 1));
  std::atomic_ref(slot.claim).store(kPosted, std::memory_order_release);  // pairs with claim()
  order(h.tail).store(*free, std::memory_order_relaxed);  // seen by whoever sees the tail
  std::atomic_ref(h.tail).store(h.tail + 1, std::memory_order_release);  // pairs with load_tail()
  return Ok{};
}

/// The first that is free, from behind the last one that was taken on: nearly always the next.
std::optional<std::uint32_t> SharedReceiveQueue::find_free_slot() noexcept {
  Header& h = header();
  for (std::uint32_t step = 0; step <= h.mask; ++step) {
    const std::uint32_t slot = (h.next_slot + step) & h.mask;
    const auto claim = std::atomic_ref(entry(slot).claim).load(std::memory_order_acquire);
    if (claim != kFree) continue;  // the acquire pairs with release()
    h.next_slot = slot + 1;
    return slot;
  }
  return std::nullopt;
}

SharedReceiveQueue::Claim SharedReceiveQueue::claim(std::uint32_t claimant) noexcept {
  Header& h = header();
  for (;;) {
    std::uint32_t head = load_head();
    if (head == load_tail()) return {};
    const std::uint32_t number = order(head).load(std::memory_order_relaxed) & h.mask;
    ReceiveEntry& slot = entry(number);
    std::uint32_t expected = kPosted;
    const bool mine = std::atomic_ref(slot.claim)
                          .compare_exchange_strong(expected, claimant, std::memory_order_acq_rel);
    // Whoever claimed it, the head moves on; a claimant that died before doing so is helped here.
    // If others have moved it already, the ring may have come round under our feet: then what we
    // claimed is a later receive, ours all the same, and its own place will be stepped over.
    std::atomic_ref(h.head).compare_exchange_strong(head, head + 1, std::memory_order_acq_rel);
    if (!mine) continue;
    check_limit();
    return {.slot = number, .entry = &slot};
  }
}

void SharedReceiveQueue::release(std::uint32_t slot) noexcept {
  // pairs with the acquire in post(): the entry was read before it is written again
  std::atomic_ref(entry(slot).claim).store(kFree, std::memory_order_release);
}

void SharedReceiveQueue::reclaim(std::uint32_t claimant) noexcept {
  for (std::uint32_t slot = 0; slot <= header().mask; ++slot) {
    std::uint32_t expected = claimant;
    std::atomic_ref(entry(slot).claim)
        .compare_exchange_strong(expected, kFree, std::memory_order_acq_rel);
  }
}

Status SharedReceiveQueue::arm_limit(std::uint32_t limit) noexcept {
  Header& h = header();
  if (limit > h.depth) return Errc::kInvalidArgument;
  std::atomic_ref(h.limit).store(limit, std::memory_order_relaxed);
  check_limit();
  return Ok{};
}

void SharedReceiveQueue::check_limit() noexcept {
  Header& h = header();
  std::uint32_t armed = std::atomic_ref(h.limit).load(std::memory_order_relaxed);
  if (armed == 0 || waiting_count() >= armed) return;
  // One shot: whoever disarms it raises the event.
  if (std::atomic_ref(h.limit).compare_exchange_strong(armed, 0, std::memory_order_acq_rel)) {
    std::atomic_ref(h.limit_reached).store(1, std::memory_order_release);
  }
}

std::span<const memory::Sge> SharedReceiveQueue::list_of(const ReceiveEntry& entry) const noexcept {
  const std::uint32_t count = std::min(entry.sge_count, header().sge_limit);
  return {std::bit_cast<const memory::Sge*>(&entry + 1), count};
}

}  // namespace verbatim::transport
