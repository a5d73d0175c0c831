// SPDX-License-Identifier: Apache-2.0
#include "transport/receive_queue.h"

#include <algorithm>
#include <new>

namespace verbatim::transport {

ReceiveQueue ReceiveQueue::create(std::span<std::byte> block, const Limits& limits) noexcept {
  VB_ASSERT(block.size() >= octets_for(limits));
  auto* header = new (block.data()) Header;
  header->depth = limits.depth;
  header->sge_limit = limits.sge_limit;
  header->stride = stride(limits.sge_limit);
  header->mask = ring_size(limits.depth) - 1;
  return attach(block.data());
}

Status ReceiveQueue::post(const ReceiveRequest& request, std::uint32_t collected) noexcept {
  Header& h = header();
  if (request.list.size() > h.sge_limit) return Errc::kInvalidArgument;
  const std::uint32_t tail = h.tail;
  // Not by the head: between a completion and the move of the head, a receive would count twice or
  // not at all. A slot whose completion was collected is free even if the head has yet to pass it,
  // for the consumer has read it before it published.
  if (tail - h.dropped - collected >= h.depth) return Errc::kNoMemory;
  ReceiveEntry& slot = entry(tail);
  slot = {.wr_id = request.wr_id,
          .sge_count = static_cast<std::uint32_t>(request.list.size()),
          .claim = 0};
  std::ranges::copy(request.list, std::bit_cast<memory::Sge*>(&slot + 1));
  std::atomic_ref(h.tail).store(tail + 1, std::memory_order_release);  // pairs with load_tail()
  return Ok{};
}

std::span<const memory::Sge> ReceiveQueue::list_of(const ReceiveEntry& entry) const noexcept {
  // The count is read once and bounded: the entry may lie in memory that a peer can write.
  const std::uint32_t count = std::min(entry.sge_count, header().sge_limit);
  return {std::bit_cast<const memory::Sge*>(&entry + 1), count};
}

void ReceiveQueue::clear(std::uint32_t published) noexcept {
  Header& h = header();
  h.dropped = h.tail - published;
  std::atomic_ref(h.head).store(h.tail, std::memory_order_release);
}

void ReceiveQueue::finish_pop(std::uint32_t published) noexcept {
  if (published + header().dropped == load_head() + 1) pop();
}

}  // namespace verbatim::transport
