// SPDX-License-Identifier: Apache-2.0
#include "transport/completion_queue.h"

#include <algorithm>
#include <array>
#include <new>

namespace verbatim::transport {

CompletionBoard CompletionBoard::create(std::span<std::byte> block,
                                        std::uint32_t lane_limit) noexcept {
  VB_ASSERT(block.size() >= octets_for(lane_limit));
  std::ranges::fill(block.first(octets_for(lane_limit)), std::byte{0});
  auto* header = new (block.data()) Header;
  header->lane_limit = lane_limit;
  return attach(block);
}

CompletionBoard CompletionBoard::attach(std::span<std::byte> room) noexcept {
  if (room.size() < sizeof(Header)) return {};
  const std::uint32_t limit = std::atomic_ref(std::bit_cast<Header*>(room.data())->lane_limit)
                                  .load(std::memory_order_relaxed);  // once
  if (octets_for(limit) > room.size()) return {};
  CompletionBoard board;
  board.block_ = room.data();
  board.lane_limit_ = limit;
  return board;
}

void CompletionPort::wake_if_armed(bool is_urgent) noexcept {
  auto armed = Arming(board_.armed().load(std::memory_order_acquire));
  if (armed == Arming::kNone) return;
  if (armed == Arming::kSolicited && !is_urgent) return;
  if (board_.armed().exchange(0, std::memory_order_acq_rel) == 0) return;
  board_.fired().fetch_add(1, std::memory_order_release);  // pairs with take_event()
}

Expected<CompletionPort> CompletionQueue::attach(CompletionLane lane) noexcept {
  const auto free = std::ranges::find_if(lanes_, [](const auto& l) { return !l.exists(); });
  if (free == lanes_.end()) return Errc::kNoMemory;
  *free = lane;
  const auto index = static_cast<std::uint32_t>(free - lanes_.begin());
  used_ = std::max(used_, index + 1);
  board_.hint(index).store(0, std::memory_order_relaxed);
  return CompletionPort(lane, board_, index);
}

void CompletionQueue::detach(const CompletionPort& port) noexcept {
  lanes_[port.index()] = {};
  board_.hint(port.index()).store(0, std::memory_order_relaxed);
  while (used_ > 0 && !lanes_[used_ - 1].exists()) --used_;
}

CompletionPort CompletionQueue::replace(const CompletionPort& port, CompletionLane lane) noexcept {
  lanes_[port.index()] = lane;
  board_.hint(port.index()).store(1, std::memory_order_relaxed);  // whatever it brings along
  return CompletionPort(lane, board_, port.index());
}

void CompletionQueue::discard(const CompletionPort& port) noexcept {
  Completion dropped;
  while (lanes_[port.index()].pop(dropped)) {
  }
}

void CompletionQueue::expect(std::uint32_t lane) const noexcept {
  if (lane + 8 > used_) return;
  for (std::uint64_t hints = board_.hints_from(lane); hints != 0; hints >>= 8, ++lane) {
    if ((hints & 0xff) != 0 && lanes_[lane].exists()) lanes_[lane].expect();
  }
}

std::size_t CompletionQueue::poll(std::span<Completion> into) noexcept {
  std::size_t count = 0;
  // Lanes since the last completion: a full round without one ends the poll.
  std::uint32_t looked = 0;
  std::uint32_t dry = 0;  // of these, those with their hints up
  while (count < into.size() && looked < used_) {
    if (turn_ >= used_) turn_ = 0;
    if (turn_ % 8 == 0 && used_ - turn_ >= 8) {
      if (board_.hints_from(turn_) == 0) {
        turn_ += 8;
        looked += 8;
        continue;
      }
      expect(turn_ + 8);
    }
    ++looked;
    if (board_.is_hinted(turn_)) {
      CompletionLane& lane = lanes_[turn_];
      const std::size_t before = count;
      while (lane.exists() && count < into.size() && lane.pop(into[count])) ++count;
      if (count > before) {
        looked = dry = 0;
      } else {
        ++dry;
      }
    }
    ++turn_;  // also when the lane has more: the next poll is the others'
  }
  idle_polls_ = count > 0 ? 0 : idle_polls_ + 1;
  if (dry > (idle_polls_ < kIdlePolls ? kStaleLimit : kIdleStaleLimit)) [[unlikely]]
    has_stale_hints_ = true;
  return count;
}

template <typename Visit>
void CompletionQueue::visit_hinted(Visit&& visit) const noexcept {
  for (std::uint32_t lane = 0; lane < used_; ++lane) {
    if (lane % 8 == 0 && used_ - lane >= 8 && board_.hints_from(lane) == 0) {
      lane += 7;  // none of the eight has anything
    } else if (board_.is_hinted(lane)) {
      visit(lane);
    }
  }
}

void CompletionQueue::lower_hints(Barrier barrier) noexcept {
  std::array<std::uint32_t, 4 * kStaleLimit> lowered;  // more next time
  std::size_t count = 0;
  const auto is_dry = [this](std::uint32_t lane) {
    return !lanes_[lane].exists() || !lanes_[lane].has_next();
  };
  visit_hinted([&](std::uint32_t lane) {
    if (count == lowered.size() || !is_dry(lane)) return;
    board_.hint(lane).store(0, std::memory_order_relaxed);
    lowered[count++] = lane;
  });
  barrier();  // as in arm(): pairs with the fence in publish(), or stands for it
  for (const std::uint32_t lane : std::span(lowered).first(count)) {
    if (!is_dry(lane)) board_.hint(lane).store(1, std::memory_order_relaxed);
  }
  has_stale_hints_ = false;
  idle_polls_ = 0;
}

void CompletionQueue::arm(Arming what, Barrier barrier) noexcept {
  // Arming for everything is not weakened by a later request for solicited completions.
  const auto wanted = static_cast<std::uint32_t>(what);
  std::uint32_t now = board_.armed().load(std::memory_order_relaxed);
  if (now >= wanted) return;  // the arming that did it had its barrier
  while (now < wanted && !board_.armed().compare_exchange_weak(now, wanted)) {
  }
  barrier();  // pairs with the fence in CompletionPort::publish(), or stands for it
}

void CompletionQueue::stamp(Instant now) noexcept {
  visit_hinted([&](std::uint32_t lane) {
    if (lanes_[lane].exists()) lanes_[lane].stamp(now);
  });
}

std::uint32_t CompletionQueue::waiting_count() const noexcept {
  std::uint32_t total = 0;
  visit_hinted([&](std::uint32_t lane) {
    if (lanes_[lane].exists()) total += lanes_[lane].count();
  });
  return total;
}

Status CompletionQueue::resize(std::uint32_t capacity) noexcept {
  if (capacity == 0 || capacity < waiting_count()) return Errc::kInvalidArgument;
  capacity_ = capacity;
  return Ok{};
}

}  // namespace verbatim::transport
