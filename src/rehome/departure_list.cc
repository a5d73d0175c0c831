// SPDX-License-Identifier: Apache-2.0
#include "rehome/departure_list.h"

namespace verbatim::rehome {

void DepartureList::put(const Departure& departure) noexcept {
  const std::uint64_t put = put_.load(std::memory_order_relaxed);
  if (put - taken_.load(std::memory_order_acquire) == kMax) {
    misses_.fetch_add(1);
    has_missed_.store(true, std::memory_order_release);
  } else {
    departures_[put % kMax] = departure;
    put_.store(put + 1, std::memory_order_release);
  }
}

bool DepartureList::take(Departure& departure, bool& has_missed) noexcept {
  if (has_missed_.exchange(false, std::memory_order_acq_rel)) has_missed = true;
  const std::uint64_t taken = taken_.load(std::memory_order_relaxed);
  if (taken == put_.load(std::memory_order_acquire)) return false;
  departure = departures_[taken % kMax];
  taken_.store(taken + 1, std::memory_order_release);
  return true;
}

DepartureList::Moment DepartureList::now() const noexcept {
  return {.put = put_.load(), .misses = misses_.load()};
}

bool DepartureList::may_have_left_since(const Moment& moment, Range range) const noexcept {
  const std::uint64_t put = put_.load(std::memory_order_acquire);
  const bool is_unknown =
      has_missed_.load() || misses_.load() != moment.misses || put - moment.put >= kMax;
  if (is_unknown) return true;
  for (std::uint64_t i = moment.put; i < put; ++i) {
    if (departures_[i % kMax].range.overlaps(range)) return true;
  }
  return false;
}

void DepartureList::forget() noexcept {
  put_.store(0);
  taken_.store(0);
  has_missed_.store(false);
}

}  // namespace verbatim::rehome
