// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace verbatim::device {

/// Turns moments of the adapter's clock into the time of day. The two clocks run at one rate, so
/// the difference between them is kept: moments stay in their order, and as far apart as they were.
/// It changes only when the time of day was set.
///
/// Pure: the clocks are read by its owner. Any thread.
class WallClock {
 public:
  /// The time of day between two looks at the adapter's clock; all in nanoseconds.
  struct Sample {
    std::int64_t before = 0;
    std::int64_t time_of_day = 0;
    std::int64_t after = 0;
  };
  /// A sample that took longer says too little: the thread was interrupted.
  static constexpr std::int64_t kSampleTakes = 100'000;
  /// A smaller difference is an error of measurement, a larger one means that the time was set.
  static constexpr std::int64_t kStep = 1'000'000;

  /// The time of day of a moment on the adapter's clock, as far as `sample` and earlier ones tell.
  [[nodiscard]] std::uint64_t at(std::uint64_t moment, const Sample& sample) noexcept {
    const std::int64_t measured =
        sample.time_of_day - sample.before - (sample.after - sample.before) / 2;
    std::int64_t known = difference_.load(std::memory_order_relaxed);
    const bool is_first = known == kUnknown;
    const bool is_sharp = sample.after - sample.before <= kSampleTakes;
    const bool is_set = !is_first && (measured - known > kStep ||
                                      known - measured > kStep);  // kUnknown is far away
    // The second thread takes what the first has found.
    if (is_first || (is_sharp && is_set)) {
      if (difference_.compare_exchange_strong(known, measured, std::memory_order_relaxed)) {
        known = measured;
      }
    }
    return moment + static_cast<std::uint64_t>(known);
  }

 private:
  static constexpr std::int64_t kUnknown = INT64_MIN;
  std::atomic<std::int64_t> difference_{kUnknown};
};

}  // namespace verbatim::device
