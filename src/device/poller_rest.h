// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/time.h"
#include "device/socket_watch.h"
#include "host/own_descriptor.h"

namespace verbatim::device {

/// Where a thread that polls in vain sleeps until a packet arrives, on a host where many more
/// threads poll than there are processors (docs/decisions/0034). One thread at a time: others
/// yield. Packets wake this thread and not the engine's.
///
/// A signal handler may end the thread, or leave by siglongjmp(3), while the thread sleeps. The
/// engine ends such a rest (is_lost()).
class PollerRest {
 public:
  explicit PollerRest(SocketWatch& sockets) noexcept : sockets_(sockets) {}
  PollerRest(const PollerRest&) = delete;
  PollerRest& operator=(const PollerRest&) = delete;

  /// After SocketWatch::open(). On failure no thread rests, which costs time and nothing else.
  void open() noexcept;
  void close() noexcept;
  /// In a forked child: no thread rests any more. Closes nothing.
  void forget_in_child() noexcept;

  /// From now on the calling thread rests: wake() ends its next wait(). False when another thread
  /// rests, or none can.
  [[nodiscard]] bool begin(Instant at) noexcept;
  /// Sleeps until a packet arrives, wake() is called, a signal is handled or the time has passed.
  /// Returns whether it was woken before the time had passed. The thread cannot be cancelled here.
  [[nodiscard]] bool wait(Duration limit) noexcept;
  void end(Instant at) noexcept;
  void wake() const noexcept;

  [[nodiscard]] bool is_resting() const noexcept { return rester_.load() != 0; }
  /// Whether a rest began so long ago that its thread cannot be there any more.
  [[nodiscard]] bool is_lost(Instant at) const noexcept {
    return is_resting() && at - began_.load(std::memory_order_relaxed) > kLongest;
  }
  /// When a rest has ended last.
  [[nodiscard]] Instant last() const noexcept { return last_.load(std::memory_order_relaxed); }

 private:
  static constexpr Duration kLongest = std::chrono::seconds(1);

  SocketWatch& sockets_;
  host::OwnDescriptor epoll_;
  host::OwnDescriptor bell_;      // an eventfd that wake() rings
  std::atomic<pid_t> rester_{0};  // the thread that rests; 0: none
  std::atomic<bool> is_usable_{false};
  std::atomic<Instant> began_{};
  std::atomic<Instant> last_{};
};

}  // namespace verbatim::device
