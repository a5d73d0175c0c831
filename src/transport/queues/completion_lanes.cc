// SPDX-License-Identifier: Apache-2.0
#include "transport/queues/completion_lanes.h"

#include <algorithm>
#include <array>
#include <new>

#include "base/pointer.h"

namespace verbatim::transport {

CompletionBoard CompletionBoard::create(std::span<std::byte> block,
                                        std::uint32_t hint_count) noexcept {
  VB_ASSERT(block.size() >= octets_for(hint_count));
  auto* header = new (block.data()) Header;
  header->hint_count = hint_count;
  return attach(block);
}

CompletionBoard CompletionBoard::attach(std::span<std::byte> room) noexcept {
  if (room.size() < sizeof(Header)) return {};
  const std::uint32_t limit = std::atomic_ref(pointer_as<Header>(room.data())->hint_count)
                                  .load(std::memory_order_relaxed);  // once
  if (octets_for(limit) > room.size()) return {};
  CompletionBoard board;
  board.block_ = room.data();
  board.hint_count_ = limit;
  return board;
}

void CompletionPort::wake_if_armed(bool is_urgent) noexcept {
  auto armed = Arming(board_.armed().load(std::memory_order_acquire));
  if (armed == Arming::kNone) return;
  if (armed == Arming::kSolicited && !is_urgent) return;
  if (board_.armed().exchange(0, std::memory_order_acq_rel) == 0) return;
  board_.fired().fetch_add(1, std::memory_order_release);  // pairs with take_event()
}

Expected<CompletionPort> CompletionLanes::attach(CompletionLane lane) noexcept {
  const auto free = std::ranges::find_if(lanes_.begin() + lowest_free_, lanes_.end(),
                                         [](const auto& l) { return !l.exists(); });
  const auto index = static_cast<std::uint32_t>(free - lanes_.begin());
  lowest_free_ = index;
  if (free == lanes_.end()) return Errc::kNoMemory;
  // A hint that was never in use may have any value. A hint that other lanes share stays: it may be
  // raised for them.
  const std::uint32_t hint = index % board_.hint_count();
  if (!has_lanes(hint)) board_.hint(hint).store(0, std::memory_order_relaxed);
  *free = lane;
  note_used(std::max(used_, index + 1));
  return CompletionPort(lane, board_, hint).of_lane(index);
}

void CompletionLanes::detach(const CompletionPort& port) noexcept {
  lanes_[port.index()] = {};
  lowest_free_ = std::min(lowest_free_, port.index());
  if (!has_lanes(port.hint())) board_.hint(port.hint()).store(0, std::memory_order_relaxed);
  std::uint32_t used = used_;
  while (used > 0 && !lanes_[used - 1].exists()) --used;
  note_used(used);
}

void CompletionLanes::note_used(std::uint32_t used) noexcept {
  used_ = used;
  hints_used_ = std::min(used, board_.hint_count());
}

CompletionPort CompletionLanes::replace(const CompletionPort& port, CompletionLane lane) noexcept {
  lanes_[port.index()] = lane;
  board_.hint(port.hint()).store(1, std::memory_order_relaxed);  // it may hold completions
  return CompletionPort(lane, board_, port.hint()).of_lane(port.index());
}

/// The lanes that a hint stands for.
template <typename Visit>
void CompletionLanes::visit_lanes(std::uint32_t hint, Visit&& visit) const noexcept {
  for (std::uint32_t lane = hint; lane < used_; lane += board_.hint_count()) {
    if (lanes_[lane].exists()) visit(lanes_[lane]);
  }
}

bool CompletionLanes::has_lanes(std::uint32_t hint) const noexcept {
  bool has_lanes = false;
  visit_lanes(hint, [&](const CompletionLane&) { has_lanes = true; });
  return has_lanes;
}

bool CompletionLanes::is_dry(std::uint32_t hint) const noexcept {
  bool is_dry = true;
  visit_lanes(hint, [&](const CompletionLane& lane) { is_dry = is_dry && !lane.has_next(); });
  return is_dry;
}

void CompletionLanes::discard(const CompletionPort& port) noexcept {
  Completion dropped;
  while (lanes_[port.index()].pop(dropped)) {
  }
}

void CompletionLanes::prefetch(std::uint32_t hint) const noexcept {
  if (hint + 8 > hints_used_) return;
  for (std::uint64_t hints = board_.hints_from(hint); hints != 0; hints >>= 8, ++hint) {
    if ((hints & 0xff) != 0 && lanes_[hint].exists()) lanes_[hint].prefetch();
  }
}

std::size_t CompletionLanes::poll(std::span<Completion> into) noexcept {
  std::size_t count = 0;
  // Hints since the last completion: a full round without a completion ends the poll.
  std::uint32_t looked = 0;
  std::uint32_t dry = 0;  // raised hints among them whose lanes were empty
  while (count < into.size() && looked < hints_used_) {
    if (turn_ >= hints_used_) {
      turn_ = 0;
      ++rounds_;
    }
    if (turn_ % 8 == 0 && hints_used_ - turn_ >= 8) {
      if (board_.hints_from(turn_) == 0) {
        turn_ += 8;
        looked += 8;
        continue;
      }
      prefetch(turn_ + 8);
    }
    ++looked;
    if (board_.is_hinted(turn_)) {
      const std::size_t found = collect(turn_, into.subspan(count));
      count += found;
      if (found > 0) {
        looked = dry = 0;
      } else {
        ++dry;
      }
    }
    ++turn_;  // also when the lane has more: the next poll begins with another lane
  }
  idle_polls_ = count > 0 ? 0 : idle_polls_ + 1;
  if (dry > (idle_polls_ < kIdlePolls ? kStaleLimit : kIdleStaleLimit)) [[unlikely]]
    has_stale_hints_ = true;
  return count;
}

/// Collects from the lanes of one hint. If there are several, they take turns in being the first.
std::size_t CompletionLanes::collect(std::uint32_t hint, std::span<Completion> into) noexcept {
  std::size_t count = 0;
  const auto drain = [&](CompletionLane& lane) {
    while (lane.exists() && count < into.size() && lane.pop(into[count])) ++count;
  };
  if (used_ == hints_used_) [[likely]] {
    drain(lanes_[hint]);
    return count;
  }
  const std::uint32_t step = board_.hint_count();
  const std::uint32_t lanes = (used_ - hint + step - 1) / step;
  for (std::uint32_t i = 0; i < lanes; ++i) drain(lanes_[hint + (rounds_ + i) % lanes * step]);
  return count;
}

template <typename Visit>
void CompletionLanes::visit_hinted(Visit&& visit) const noexcept {
  for (std::uint32_t hint = 0; hint < hints_used_; ++hint) {
    if (hint % 8 == 0 && hints_used_ - hint >= 8 && board_.hints_from(hint) == 0) {
      hint += 7;  // none of the eight is raised
    } else if (board_.is_hinted(hint)) {
      visit(hint);
    }
  }
}

void CompletionLanes::lower_hints(Barrier barrier) noexcept {
  std::array<std::uint32_t, 4 * kStaleLimit> lowered;  // the next call lowers more
  std::size_t count = 0;
  visit_hinted([&](std::uint32_t hint) {
    if (count == lowered.size() || !is_dry(hint)) return;
    board_.hint(hint).store(0, std::memory_order_relaxed);
    lowered[count++] = hint;
  });
  barrier();  // as in arm(): pairs with the fence in publish(), or stands for it
  for (const std::uint32_t hint : std::span(lowered).first(count)) {
    if (!is_dry(hint)) board_.hint(hint).store(1, std::memory_order_relaxed);
  }
  has_stale_hints_ = false;
  idle_polls_ = 0;
}

void CompletionLanes::arm(Arming what, Barrier barrier) noexcept {
  // Arming for everything is not weakened by a later request for solicited completions.
  const auto wanted = static_cast<std::uint32_t>(what);
  std::uint32_t now = board_.armed().load(std::memory_order_relaxed);
  if (now >= wanted) return;  // the earlier arming had its barrier
  while (now < wanted && !board_.armed().compare_exchange_weak(now, wanted)) {
  }
  barrier();  // pairs with the fence in CompletionPort::publish(), or stands for it
}

void CompletionLanes::stamp(Instant now) noexcept {
  visit_hinted([&](std::uint32_t hint) {
    for (std::uint32_t lane = hint; lane < used_; lane += board_.hint_count()) {
      if (lanes_[lane].exists()) lanes_[lane].stamp(now);
    }
  });
}

std::uint32_t CompletionLanes::waiting_count() const noexcept {
  std::uint32_t total = 0;
  visit_hinted([&](std::uint32_t hint) {
    visit_lanes(hint, [&](const CompletionLane& lane) { total += lane.count(); });
  });
  return total;
}

Status CompletionLanes::resize(std::uint32_t capacity) noexcept {
  if (capacity == 0 || capacity < waiting_count()) return Errc::kInvalidArgument;
  capacity_ = capacity;
  return Ok{};
}

}  // namespace verbatim::transport
