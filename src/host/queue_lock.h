// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "base/biased_lock.h"

namespace verbatim::host {

/// The system calls of a BiasedLock: membarrier(2) and futex(2).
struct LockSystem {
  [[nodiscard]] static bool can_bias() noexcept;
  static void barrier() noexcept;
  static void wait(std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept;
  static void wake_one(std::atomic<std::uint32_t>& word) noexcept;
  static void relax(std::uint32_t attempt) noexcept;
};

/// The lock of a queue pair or a completion queue: biased to the thread that uses it. Threads hold
/// it for a short time.
using QueueLock = BiasedLock<LockSystem>;
/// The lock of an adapter. It does not spin: its holder may be in a system call, or wait for the
/// processor of the thread that waits.
using AdapterLock = BiasedLock<LockSystem, kBestFencing, 0>;

}  // namespace verbatim::host
