// SPDX-License-Identifier: Apache-2.0
#include "host/crowd_gauge.h"

#include <algorithm>
#include <chrono>

namespace verbatim::host {
namespace {

constexpr Duration kWindow = std::chrono::milliseconds(2);
// A window that takes longer began before the thread last did something else. One yield may take
// some time slices.
constexpr Duration kLongestWindow = std::chrono::milliseconds(100);
// A crowd that was found is believed in for this time, because a thread that rests cannot measure.
// While it measures, it keeps a processor from others. So the time is doubled when the next
// measurement, right after it, finds a crowd as well.
constexpr Duration kHolds = std::chrono::milliseconds(50);
constexpr Duration kHoldsMax = std::chrono::milliseconds(800);
constexpr Duration kRightAfter = std::chrono::milliseconds(100);

/// Where one pair of threads that poll and their engines share two processors, each of the threads
/// lacks a fifth of one. Two pairs lack a half.
bool is_much(Duration lost, Duration of) noexcept { return lost * 3 > of; }

}  // namespace

void CrowdGauge::begin_window(Instant at, std::optional<Duration> waited) noexcept {
  window_ = at;
  in_yields_ = {};
  waited_before_ = waited.value_or(Duration{});
}

bool CrowdGauge::is_crowded(Instant at) noexcept {
  if (at < crowded_until_) return true;
  const Duration window = at - window_;
  if (window < kWindow) return false;
  const std::optional<Duration> waited = account_();
  const Duration lost = waited ? *waited - waited_before_ : in_yields_;
  const bool has_rested = window_ < crowded_until_;  // in this window
  begin_window(at, waited);
  if (has_rested || window > kLongestWindow || lost > window) return false;
  if (!is_much(lost, window)) {
    holds_ = {};
    return false;
  }
  const bool goes_on = holds_ > Duration{} && at - crowded_until_ < kRightAfter;
  holds_ = goes_on ? std::min(2 * holds_, kHoldsMax) : kHolds;
  crowded_until_ = at + holds_;
  return true;
}

}  // namespace verbatim::host
