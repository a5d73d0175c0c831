// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "base/biased_lock.h"

namespace verbatim::host {

/// What a BiasedLock asks of this system: membarrier(2) and futex(2).
struct LockSystem {
  [[nodiscard]] static bool can_bias() noexcept;
  static void barrier() noexcept;
  static void wait(std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept;
  static void wake_one(std::atomic<std::uint32_t>& word) noexcept;
  static void relax(std::uint32_t attempt) noexcept;
};

/// The lock of a queue pair or a completion queue: biased to the thread that uses it. Its sections
/// are short.
using QueueLock = BiasedLock<LockSystem>;
/// The lock of an adapter: who has it may be in a system call, or wait for this very processor.
using AdapterLock = BiasedLock<LockSystem, kBestFencing, 0>;

}  // namespace verbatim::host
