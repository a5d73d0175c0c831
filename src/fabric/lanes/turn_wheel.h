// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "fabric/alarm_heap.h"

namespace verbatim::fabric {

/// The instants at which owners, numbered from 0, want a turn: each at most one, which stays until
/// it has come. Owners of one instant come in the order in which they were added. A wheel with a
/// slot for each nanosecond of the next ones, so most turns cost a few stores; a heap has the later
/// ones.
class TurnWheel {
 public:
  explicit TurnWheel(std::size_t owners) : next_(owners), later_(owners), slots_(kSlots) {}

  /// The owner has no turn yet. `now` never goes back; an earlier `due` counts as now.
  void add(Instant now, std::uint32_t owner, Instant due) {
    if (count_ == 0) base_ = now.since_start().count();
    if (due < now) due = now;
    const std::int64_t at = due.since_start().count();
    if (at - base_ >= static_cast<std::int64_t>(kSlots)) return later_.set(owner, due);
    const std::size_t index = static_cast<std::size_t>(at) % kSlots;
    Slot& slot = slots_[index];
    next_[owner] = kNone;
    if (slot.first == kNone) {
      slot.first = owner;
      words_[index / 64] |= std::uint64_t{1} << (index % 64);
      summary_[index / 4096] |= std::uint64_t{1} << (index / 64 % 64);
    } else {
      next_[slot.last] = owner;
    }
    slot.last = owner;
    ++count_;
  }

  /// When the next turn is; never() for none.
  [[nodiscard]] Instant next_due() const noexcept {
    const Instant later = later_.next_due().value_or(Instant::never());
    if (count_ == 0) return later;
    const Instant soon = Instant::at(Duration(base_ + static_cast<std::int64_t>(distance())));
    return soon < later ? soon : later;
  }

  /// Takes the owner whose turn is at next_due(), which is not never().
  [[nodiscard]] std::uint32_t pop() {
    const Instant later = later_.next_due().value_or(Instant::never());
    if (count_ == 0) return pop_later();
    const std::size_t distance = this->distance();
    const std::int64_t at = base_ + static_cast<std::int64_t>(distance);
    if (later <= Instant::at(Duration(at))) return pop_later();
    base_ = at;
    const std::size_t index = static_cast<std::size_t>(at) % kSlots;
    Slot& slot = slots_[index];
    const std::uint32_t owner = slot.first;
    slot.first = next_[owner];
    if (slot.first == kNone) clear(index);
    --count_;
    return owner;
  }

 private:
  static constexpr std::size_t kSlots = 16'384;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Slot {
    std::uint32_t first = kNone;
    std::uint32_t last = kNone;
  };

  [[nodiscard]] std::uint32_t pop_later() {
    const std::uint32_t owner = later_.next_owner();
    later_.set(owner, std::nullopt);
    return owner;
  }
  void clear(std::size_t index) noexcept {
    words_[index / 64] &= ~(std::uint64_t{1} << (index % 64));
    if (words_[index / 64] == 0) summary_[index / 4096] &= ~(std::uint64_t{1} << (index / 64 % 64));
  }
  /// From the slot of base_ to the next one that is not empty; there is one.
  [[nodiscard]] std::size_t distance() const noexcept {
    const std::size_t from = static_cast<std::size_t>(base_) % kSlots;
    const std::uint64_t here = words_[from / 64] >> (from % 64);
    if (here != 0) return static_cast<std::size_t>(std::countr_zero(here));
    const std::size_t found = first_behind(from / 64);
    return (found + kSlots - from) % kSlots;
  }
  /// The first slot in the words behind this one, around the wheel and to that word again.
  [[nodiscard]] std::size_t first_behind(std::size_t word) const noexcept {
    const std::size_t start = (word + 1) % words_.size();
    std::uint64_t mask = ~std::uint64_t{0} << (start % 64);
    for (std::size_t part = start / 64;; part = (part + 1) % summary_.size()) {
      if (const std::uint64_t some = summary_[part] & mask; some != 0) {
        const auto at = part * 64 + static_cast<std::size_t>(std::countr_zero(some));
        return at * 64 + static_cast<std::size_t>(std::countr_zero(words_[at]));
      }
      mask = ~std::uint64_t{0};
    }
  }

  std::int64_t base_ = 0;            // nanoseconds: no turn in a slot is earlier
  std::size_t count_ = 0;            // of turns in slots
  std::vector<std::uint32_t> next_;  // by owner: the one behind it in its slot
  AlarmHeap later_;
  std::vector<Slot> slots_;                             // by nanosecond modulo their number
  std::array<std::uint64_t, kSlots / 64> words_{};      // a bit for each slot that is not empty
  std::array<std::uint64_t, kSlots / 4096> summary_{};  // a bit for each word that is not 0
};

}  // namespace verbatim::fabric
