// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace verbatim::device {

/// Converts times of the adapter's clock into the time of day. The two clocks run at one rate, so
/// one difference between them is used for all conversions: the order of two times and their
/// distance are preserved. The difference changes only when the time of day was set.
///
/// It reads no clock: its owner does. Any thread.
class WallClock {
 public:
  /// The time of day, read between two readings of the adapter's clock; all in nanoseconds.
  struct Sample {
    std::int64_t before = 0;
    std::int64_t time_of_day = 0;
    std::int64_t after = 0;
  };
  /// A sample that took longer is too inaccurate, because the thread was interrupted.
  static constexpr std::int64_t kSampleTakes = 100'000;
  /// A smaller difference is an error of measurement, a larger one means that the time was set.
  static constexpr std::int64_t kStep = 1'000'000;

  /// The time of day for a time of the adapter's clock, from `sample` and earlier ones.
  [[nodiscard]] std::uint64_t at(std::uint64_t moment, const Sample& sample) noexcept {
    const std::int64_t measured =
        sample.time_of_day - sample.before - (sample.after - sample.before) / 2;
    std::int64_t known = difference_.load(std::memory_order_relaxed);
    const bool is_first = known == kUnknown;
    const bool is_sharp = sample.after - sample.before <= kSampleTakes;
    const bool is_set =
        !is_first && (measured - known > kStep || known - measured > kStep);  // never with kUnknown
    // If two threads get here, the second uses the difference of the first.
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

/// The time of day for a time of the adapter's clock, in nanoseconds. Reads both clocks; all calls
/// of the process use one difference.
[[nodiscard]] std::uint64_t time_of_day_at(std::uint64_t timestamp) noexcept;

}  // namespace verbatim::device
