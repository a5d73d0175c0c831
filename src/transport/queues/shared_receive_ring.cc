// SPDX-License-Identifier: Apache-2.0
#include "transport/queues/shared_receive_ring.h"

#include <algorithm>
#include <new>

#include "base/pointer.h"

namespace verbatim::transport {

namespace {
constexpr std::uint64_t kTriesPerPlace = 64;
}  // namespace

SharedReceiveRing SharedReceiveRing::create(std::span<std::byte> block, memory::DomainId domain,
                                            const Limits& limits) noexcept {
  VB_ASSERT(block.size() >= octets_for(limits));
  auto* header = new (block.data()) Header;
  header->depth = limits.depth;
  header->sge_limit = limits.sge_limit;
  header->domain = domain;
  auto queue = attach(block);
  for (std::uint32_t i = 0; i <= queue.mask_; ++i) queue.entry(i) = ReceiveEntry{};
  return queue;
}

SharedReceiveRing SharedReceiveRing::attach(std::span<std::byte> room, Fencing fencing) noexcept {
  const auto limits = Limits::read<SharedReceiveRing, Header>(room);
  if (!limits) return {};
  SharedReceiveRing queue;
  queue.block_ = room.data();
  queue.depth_ = limits->depth;
  queue.sge_limit_ = limits->sge_limit;
  queue.mask_ = Limits::ring_size(limits->depth) - 1;
  queue.domain_ = std::atomic_ref(queue.header().domain).load(std::memory_order_relaxed);
  queue.fencing_ = fencing;
  return queue;
}

Status SharedReceiveRing::post(const ReceiveRequest& request) noexcept {
  Header& h = header();
  if (request.list.size() > sge_limit_) return Errc::kInvalidArgument;
  if (h.tail - load_head() >= depth_) move_head_on();
  if (h.tail - load_head() >= depth_) return Errc::kNoMemory;
  const auto free = find_free_cell();
  if (!free) return Errc::kNoMemory;
  ReceiveEntry& cell = entry(*free);
  cell.wr_id = request.wr_id;
  cell.sge_count = static_cast<std::uint32_t>(request.list.size());
  std::ranges::copy(request.list, pointer_as<memory::Sge>(&cell + 1));
  queue_up(*free);
  return Ok{};
}

/// Gives a filled cell the next place of the ring.
void SharedReceiveRing::queue_up(std::uint32_t cell) noexcept {
  Header& h = header();
  // pairs with claim()
  std::atomic_ref(entry(cell).claim).store(posted_at(h.tail), std::memory_order_release);
  order(h.tail).store(cell, std::memory_order_relaxed);  // the release of the tail publishes it
  std::atomic_ref(h.tail).store(h.tail + 1, std::memory_order_release);  // pairs with load_tail()
}

/// Moves the head for a claimant that has died, or is delayed, between its claim and its own move.
void SharedReceiveRing::move_head_on() noexcept {
  Header& h = header();
  std::uint32_t head = load_head();
  if (head == h.tail) return;
  const std::uint32_t cell = order(head).load(std::memory_order_relaxed);
  if (std::atomic_ref(entry(cell).claim).load(std::memory_order_acquire) == posted_at(head)) return;
  std::atomic_ref(h.head).compare_exchange_strong(head, head + 1, std::memory_order_acq_rel);
}

/// The first free cell behind the one that was used last: nearly always the next.
std::optional<std::uint32_t> SharedReceiveRing::find_free_cell() noexcept {
  Header& h = header();
  for (std::uint32_t step = 0; step <= mask_; ++step) {
    const std::uint32_t cell = (h.next_cell + step) & mask_;
    const auto claim = std::atomic_ref(entry(cell).claim).load(std::memory_order_acquire);
    if (claim != kFree) continue;  // the acquire pairs with release()
    h.next_cell = cell + 1;
    return cell;
  }
  return std::nullopt;
}

SharedReceiveRing::Claim SharedReceiveRing::claim(std::uint32_t claimant) noexcept {
  Header& h = header();
  // Other claimants may be faster many times. The limit ends the loop if the block holds nonsense.
  for (std::uint64_t tries = 0; tries <= kTriesPerPlace * (std::uint64_t{mask_} + 1); ++tries) {
    std::uint32_t head = load_head();
    if (head == load_tail()) return {};
    const std::uint32_t number = order(head).load(std::memory_order_relaxed) & mask_;
    ReceiveEntry& cell = entry(number);
    std::uint32_t expected = posted_at(head);
    const bool mine = std::atomic_ref(cell.claim)
                          .compare_exchange_strong(expected, claimant, std::memory_order_acq_rel);
    // The head moves also if another claimant has the entry, which may have died before its own
    // move. If other claimants have moved the head already, even once around the ring, neither
    // exchange has found what it expected.
    std::atomic_ref(h.head).compare_exchange_strong(head, head + 1, std::memory_order_acq_rel);
    if (!mine) continue;
    fence_if(fencing_);  // pairs with the barrier in arm_limit()
    check_limit();
    return {.cell = number, .entry = &cell};
  }
  return {};
}

void SharedReceiveRing::release(std::uint32_t cell) noexcept {
  // pairs with the acquire in post(): the entry was read before it is written again
  std::atomic_ref(entry(cell).claim).store(kFree, std::memory_order_release);
}

void SharedReceiveRing::put_back(std::uint32_t claimant) noexcept {
  for (std::uint32_t cell = 0; cell <= mask_; ++cell) put_back(claimant, cell);
}

bool SharedReceiveRing::put_back(std::uint32_t claimant, std::uint32_t cell) noexcept {
  if (!is_claimed_by(claimant, cell)) return false;
  move_head_on();  // its old place may still be at the head, and the ring has no place to spare
  queue_up(cell);
  return true;
}

Status SharedReceiveRing::arm_limit(std::uint32_t limit, Barrier barrier) noexcept {
  Header& h = header();
  if (limit > depth_) return Errc::kInvalidArgument;
  std::atomic_ref(h.limit).store(limit, std::memory_order_relaxed);
  barrier();  // pairs with the fence in claim(), or stands for it
  check_limit();
  return Ok{};
}

void SharedReceiveRing::check_limit() noexcept {
  Header& h = header();
  std::uint32_t armed = std::atomic_ref(h.limit).load(std::memory_order_relaxed);
  if (armed == 0 || waiting_count() >= armed) return;
  // One event per arming: the thread that disarms the limit raises it.
  if (std::atomic_ref(h.limit).compare_exchange_strong(armed, 0, std::memory_order_acq_rel)) {
    std::atomic_ref(h.limit_reached).store(1, std::memory_order_release);
  }
}

std::span<const memory::Sge> SharedReceiveRing::list_of(const ReceiveEntry& entry) const noexcept {
  const std::uint32_t count = std::min(entry.sge_count, sge_limit_);
  return {pointer_as<const memory::Sge>(&entry + 1), count};
}

}  // namespace verbatim::transport
