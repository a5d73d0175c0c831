// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>

#include "base/time.h"
#include "device/socket_watch.h"
#include "host/own_descriptor.h"

namespace verbatim::device {

/// Where a thread that polls in vain sleeps until a packet arrives, on a host where many more
/// threads poll than there are processors (docs/decisions/0034). One thread at a time: others
/// yield. Packets wake this thread and not the engine's (SocketWatch::leave_to_rests()).
///
/// The wait has no effect on the files that it waits for. So the program may close the descriptors,
/// and have files of its own under their numbers: the rest ends early or late, for once, and the
/// engine notices.
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

  /// From now on the calling thread rests: wake() ends its next wait(), and packets stay in the
  /// sockets. False when another thread rests, or none can.
  [[nodiscard]] bool begin(Instant at) noexcept;
  /// Sleeps until a packet arrives, wake() or call_off() is called, a signal is handled or the time
  /// has passed. Returns whether anything but call_off() and the time has ended it. The thread
  /// cannot be cancelled here.
  [[nodiscard]] bool wait(Duration limit) noexcept;
  void end(Instant at) noexcept;
  void wake() const noexcept;
  /// For the engine: ends the present rest, in vain. A timer of the engine ends many rests at a
  /// lower cost than one of each rest.
  void call_off() noexcept;
  [[nodiscard]] bool is_long(Instant at) const noexcept {
    return is_resting() && at - began_.load(std::memory_order_relaxed) > kLong;
  }

  [[nodiscard]] bool is_resting() const noexcept { return has_rester_.load(); }
  /// Whether a rest began so long ago that its thread cannot be there any more.
  [[nodiscard]] bool is_lost(Instant at) const noexcept {
    return is_resting() && at - began_.load(std::memory_order_relaxed) > kLongest;
  }
  /// When a rest has ended last.
  [[nodiscard]] Instant last() const noexcept { return last_.load(std::memory_order_relaxed); }

 private:
  static constexpr Duration kLong = std::chrono::microseconds(500);
  static constexpr Duration kLongest = std::chrono::seconds(1);
  static constexpr std::size_t kSockets = 8;  // that it waits for without a detour

  SocketWatch& sockets_;
  host::OwnDescriptor bell_;  // an eventfd that wake() rings
  std::atomic<bool> has_rester_{false};
  std::atomic<bool> is_called_off_{false};
  std::atomic<bool> is_usable_{false};
  std::atomic<Instant> began_{};
  std::atomic<Instant> last_{};
};

}  // namespace verbatim::device
