// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace verbatim {

/// How the frequent side of an asymmetric protocol keeps its order (Occupancy, BiasedLock).
enum class Fencing : std::uint32_t {
  kFenced = 0,     // by fences of its own; works everywhere, and is the value of zeroed memory
  kExpedited = 1,  // without a fence: the rare side calls membarrier(2), a fence in this thread
};

/// The thread sanitizer understands fences and releases, but not membarrier(2).
#if VB_THREAD_SANITIZER
inline constexpr Fencing kBestFencing = Fencing::kFenced;
#else
inline constexpr Fencing kBestFencing = Fencing::kExpedited;
#endif

/// What the rare side calls: membarrier(2), or a full_fence() where every frequent side is kFenced.
using Barrier = void (*)() noexcept;

/// Keeps the compiler from moving memory accesses across; the processor still may.
inline void compiler_barrier() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

/// Keeps the compiler and the processor from moving memory accesses across, in all four directions.
/// The thread sanitizer does not support std::atomic_thread_fence(); the acquires and releases
/// around the fence tell it the order.
inline void full_fence() noexcept {
#if VB_THREAD_SANITIZER && defined(__aarch64__)
  __asm__ __volatile__("dmb ish" ::: "memory");
#elif VB_THREAD_SANITIZER && defined(__x86_64__)
  __asm__ __volatile__("mfence" ::: "memory");
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// Keeps later accesses from being done before earlier loads.
inline void load_fence() noexcept {
#if defined(__aarch64__)
  __asm__ __volatile__("dmb ishld" ::: "memory");
#elif defined(__x86_64__)
  compiler_barrier();  // x86 keeps this order without an instruction
#else
  full_fence();
#endif
}

/// Between a store of the frequent side and a load that must not be done before it: a fence, if the
/// rare side has no barrier that reaches this process.
inline void fence_if(Fencing fencing) noexcept {
  if (kBestFencing == Fencing::kFenced || fencing == Fencing::kFenced) [[unlikely]] {
    full_fence();
  } else {
    compiler_barrier();
  }
}

}  // namespace verbatim
