// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/time.h"

namespace verbatim::fabric {

/// One alarm for each of a fixed number of owners, which are numbered from 0; the earliest is found
/// at once. A binary heap that knows where each owner stands in it.
class AlarmHeap {
 public:
  explicit AlarmHeap(std::size_t owners) : places_(owners, kNone) { heap_.reserve(owners); }

  /// Sets the alarm of an owner, in the place of the one it had; without an instant it has none.
  void set(std::uint32_t owner, std::optional<Instant> due) {
    std::uint32_t at = places_[owner];
    if (!due) {
      if (at != kNone) remove(at);
      return;
    }
    if (at == kNone) {
      at = static_cast<std::uint32_t>(heap_.size());
      heap_.push_back({.due = *due, .owner = owner});
      places_[owner] = at;
    }
    heap_[at].due = *due;
    sink(rise(at));
  }
  [[nodiscard]] std::optional<Instant> next_due() const noexcept {
    if (heap_.empty()) return std::nullopt;
    return heap_.front().due;
  }
  /// The owner of the earliest alarm; there must be one.
  [[nodiscard]] std::uint32_t next_owner() const noexcept { return heap_.front().owner; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Alarm {
    Instant due{};
    std::uint32_t owner = 0;
  };

  void remove(std::uint32_t at) {
    places_[heap_[at].owner] = kNone;
    const Alarm last = heap_.back();
    heap_.pop_back();
    if (at == heap_.size()) return;
    heap_[at] = last;
    places_[last.owner] = at;
    sink(rise(at));
  }
  void exchange(std::uint32_t a, std::uint32_t b) noexcept {
    std::swap(heap_[a], heap_[b]);
    places_[heap_[a].owner] = a;
    places_[heap_[b].owner] = b;
  }
  std::uint32_t rise(std::uint32_t at) noexcept {
    while (at != 0 && heap_[at].due < heap_[(at - 1) / 2].due) {
      exchange(at, (at - 1) / 2);
      at = (at - 1) / 2;
    }
    return at;
  }
  void sink(std::uint32_t at) noexcept {
    for (;;) {
      std::uint32_t least = at;
      for (std::uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < heap_.size(); ++child) {
        if (heap_[child].due < heap_[least].due) least = child;
      }
      if (least == at) return;
      exchange(at, least);
      at = least;
    }
  }

  std::vector<Alarm> heap_;
  std::vector<std::uint32_t> places_;  // by owner: index in heap_, or kNone
};

}  // namespace verbatim::fabric
