// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "base/time.h"
#include "fabric/data/data_flight.h"
#include "fabric/flight.h"

namespace verbatim::fabric {

/// The packets on links that delay them. They arrive in the order of their times, and those of one
/// time in the order in which they were added.
class LateFlights {
 public:
  using Any = std::variant<Flight, DataFlight>;

  [[nodiscard]] std::size_t size() const noexcept { return heap_.size(); }
  [[nodiscard]] Instant next_due() const noexcept {
    return heap_.empty() ? Instant::never() : heap_.front().due;
  }
  template <typename Kind>
  void add(const Kind& flight) {
    heap_.push_back({.due = flight.due, .number = next_number_++, .flight = flight});
    std::push_heap(heap_.begin(), heap_.end(), comes_later);
  }
  /// There must be one.
  [[nodiscard]] Any take() {
    std::pop_heap(heap_.begin(), heap_.end(), comes_later);
    Any flight = std::move(heap_.back().flight);
    heap_.pop_back();
    return flight;
  }

 private:
  struct Entry {
    Instant due{};
    std::uint64_t number = 0;
    Any flight{};
  };
  static bool comes_later(const Entry& one, const Entry& other) noexcept {
    return one.due != other.due ? other.due < one.due : other.number < one.number;
  }

  std::vector<Entry> heap_;
  std::uint64_t next_number_ = 0;
};

}  // namespace verbatim::fabric
