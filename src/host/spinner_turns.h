// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace verbatim::host {

/// When a thread yields that finds completions, but spins on memory between its polls: it posts,
/// collects the completion, and waits for its peer to write. No call of it gives the processor away
/// then, so each of several such threads spins to the end of its time slice. With a yield at each
/// completion the peers run meanwhile.
///
/// If the peer has another processor, completions come quickly without a yield, which would only
/// break the lockstep of the two. So the thread tries now and then how long the next completion
/// takes without one, and less often after each try that took long. A yield that took long itself
/// is followed by as long a time without one: beside a program that computes, the thread keeps half
/// of the processor.
///
/// Thread: note_success() and note_look() with the lock of the queue held, the others without.
class SpinnerTurns {
 public:
  void note_success() noexcept {
    found_.store(found_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// A poll has looked for packets. A long time between one that found something and the next shows
  /// that the thread spins, or computes.
  void note_look(Instant at, bool has_found) noexcept {
    if (had_found_ && !has_found) {
      is_away_between_.store(at - found_at_ > kQuick, std::memory_order_relaxed);
    }
    had_found_ = has_found;
    if (has_found) found_at_ = at;
  }
  /// The thread has yielded or slept, because a poll has found nothing.
  void note_rest() noexcept {
    if (!is_away_between_.load(std::memory_order_relaxed)) {
      found_.store(0, std::memory_order_relaxed);
    }
  }
  /// Whether wants_yield() must be asked, after a poll that has found something.
  [[nodiscard]] bool is_due() const noexcept {
    return found_.load(std::memory_order_relaxed) >= due_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool wants_yield(Instant at) noexcept;
  /// The thread has yielded from `begin` to `end`.
  void note_yield(Instant begin, Instant end) noexcept {
    next_yield_.store(end + (end - begin), std::memory_order_relaxed);
  }

 private:
  // A completion takes longer if its peer must get a processor first.
  static constexpr Duration kQuick = std::chrono::microseconds(50);
  static constexpr std::uint32_t kDueAlone = 16;
  static constexpr std::uint32_t kDueInTurns = 2;  // found_ begins at 1 after each question
  static constexpr std::uint32_t kYieldsMax = 4096;

  [[nodiscard]] bool wants_yield_in_turns(Duration since_last) noexcept;

  bool had_found_ = false;
  Instant found_at_{};
  std::atomic<bool> is_away_between_{false};
  std::atomic<std::uint32_t> found_{0};  // polls that have found something since the last question
  std::atomic<std::uint32_t> due_{kDueAlone};
  std::atomic<Instant> asked_{};                     // the last question
  std::atomic<Instant> next_yield_{};                // no yield before
  std::atomic<bool> is_trying_{false};               // the last completion came without a yield
  std::atomic<std::uint32_t> quick_{0};              // completions of this try
  std::atomic<std::uint32_t> yields_before_try_{1};  // doubled by each try that took long
  std::atomic<std::uint32_t> yields_{0};             // since the last try
};

}  // namespace verbatim::host
