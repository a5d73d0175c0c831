// SPDX-License-Identifier: Apache-2.0
#include "device/wall_clock.h"

#include <ctime>

#include "device/clock.h"

namespace verbatim::device {

std::uint64_t time_of_day_at(std::uint64_t timestamp) noexcept {
  static constinit WallClock clock;
  WallClock::Sample sample;
  timespec time_of_day{};
  sample.before = now().since_start().count();
  ::clock_gettime(CLOCK_REALTIME, &time_of_day);
  sample.after = now().since_start().count();
  sample.time_of_day = std::int64_t{time_of_day.tv_sec} * 1'000'000'000 + time_of_day.tv_nsec;
  return clock.at(timestamp, sample);
}

}  // namespace verbatim::device
