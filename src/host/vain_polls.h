// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace verbatim::host {

/// How long polls of a completion queue have found nothing. A thread that has polled in vain for a
/// while lets another thread have the processor, which may be the one that it waits for: with more
/// threads that poll than processors, each would otherwise poll until the end of its time slice
/// (docs/decisions/0034).
///
/// The while is short if another thread has used the processor at the last time, and longer than a
/// peer on another processor takes to answer if none has: then sched_yield(2) would only cost time.
///
/// Written with the lock of the queue held. is_long() and give_way() need no lock, and a thread
/// that gives way should hold none.
class VainPolls {
 public:
  void note_success() noexcept { polled_.store(0, std::memory_order_relaxed); }
  /// A poll has read the queue.
  void note_glance() noexcept { add(kGlance); }
  /// A poll has also looked for packets.
  void note_look() noexcept { add(kLook); }
  /// Whether the thread should give way now.
  [[nodiscard]] bool is_long() const noexcept {
    return polled_.load(std::memory_order_relaxed) >= limit_.load(std::memory_order_relaxed);
  }
  /// Lets another thread have the processor, if one wants it.
  void give_way() noexcept;
  /// The thread has slept instead.
  void note_rest() noexcept { note_success(); }

 private:
  // A look for packets makes a system call and takes fifty times as long as a glance.
  static constexpr std::uint32_t kGlance = 50;
  static constexpr std::uint32_t kLook = 500;
  // The whiles: 400 glances take some 4 us, 40 looks 20 us. A message and its answer take 0.3 us
  // between processes of one host and 5 to 15 us in packets.
  static constexpr std::uint32_t kWhileAlone = 20'000;
  static constexpr std::uint32_t kWhileInACrowd = 2'500;

  void add(std::uint32_t weight) noexcept {
    polled_.store(polled_.load(std::memory_order_relaxed) + weight, std::memory_order_relaxed);
  }

  std::atomic<std::uint32_t> polled_{0};  // weight of the polls since one has found something
  std::atomic<std::uint32_t> limit_{kWhileAlone};
};

}  // namespace verbatim::host
