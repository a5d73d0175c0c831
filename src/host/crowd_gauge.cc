// SPDX-License-Identifier: Apache-2.0
#include "host/crowd_gauge.h"

#include <sys/resource.h>
#include <time.h>

#include <chrono>

namespace verbatim::host {
namespace {

constexpr Duration kWindow = std::chrono::milliseconds(2);
// A crowd that was found is believed in for this time: a thread that rests cannot measure.
constexpr Duration kHolds = std::chrono::milliseconds(50);
// A window that takes longer began before the thread last did something else.
constexpr Duration kLongestWindow = std::chrono::milliseconds(100);
// Waiting for a lock now and then is not sleeping.
constexpr long kSleepsMax = 8;

/// Where one pair of threads that poll and their engines share two processors, each of the threads
/// has four fifths of one. Two pairs have a little less than half.
bool is_little(Duration had, Duration of) noexcept { return had * 20 < of * 8; }

}  // namespace

/// The clock is exact. The times of getrusage(2) are those of the last tick.
CrowdGauge::Account CrowdGauge::read() noexcept {
  timespec processor{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &processor);
  rusage usage{};
  (void)::getrusage(RUSAGE_THREAD, &usage);
  return {.processor =
              std::chrono::seconds(processor.tv_sec) + std::chrono::nanoseconds(processor.tv_nsec),
          .sleeps = usage.ru_nvcsw};
}

bool CrowdGauge::is_crowded(Instant at) noexcept {
  if (at < crowded_until_) return true;
  const Duration window = at - window_;
  if (window < kWindow) return false;
  const Account account = read();
  const Duration had = account.processor - before_.processor;
  const bool has_slept = account.sleeps - before_.sleeps > kSleepsMax;
  const bool is_measured = window < kLongestWindow && had >= Duration{} && !has_slept;
  window_ = at;
  before_ = account;
  if (!is_measured || !is_little(had, window)) return false;
  crowded_until_ = at + kHolds;
  return true;
}

}  // namespace verbatim::host
