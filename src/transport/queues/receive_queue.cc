// SPDX-License-Identifier: Apache-2.0
#include "transport/queues/receive_queue.h"

#include <algorithm>
#include <new>

#include "base/pointer.h"

namespace verbatim::transport {

ReceiveQueue ReceiveQueue::create(std::span<std::byte> block, const Limits& limits) noexcept {
  VB_ASSERT(block.size() >= octets_for(limits));
  auto* header = new (block.data()) Header;
  header->depth = limits.depth;
  header->sge_limit = limits.sge_limit;
  return attach(block);
}

ReceiveQueue ReceiveQueue::attach(std::span<std::byte> room) noexcept {
  const auto limits = Limits::read<ReceiveQueue, Header>(room);
  if (!limits) return {};
  ReceiveQueue queue;
  queue.block_ = room.data();
  queue.depth_ = limits->depth;
  queue.sge_limit_ = limits->sge_limit;
  queue.mask_ = Limits::ring_size(limits->depth) - 1;
  return queue;
}

ReceiveQueue ReceiveQueue::move_to(std::span<std::byte> block) const noexcept {
  const Limits limits{.depth = depth_, .sge_limit = sge_limit_};
  const ReceiveQueue moved = create(block, limits);
  // The head is read first: completions of the receives before it are published, and are found
  // later.
  moved.header().head = moved.header().tail_seen = load_head();
  moved.header().tail = header().tail;
  moved.header().dropped = header().dropped;
  std::copy_n(block_ + sizeof(Header), octets_for(limits) - sizeof(Header),
              block.data() + sizeof(Header));
  return moved;
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
