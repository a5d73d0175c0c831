// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "base/expected.h"
#include "base/mutex.h"
#include "host/own_descriptor.h"

namespace verbatim::device {

/// Whom packets wake: the engine's thread, a thread of the program that rests (PollerRest), or
/// none, while callers look at the sockets themselves.
///
/// The sockets are in an epoll of their own, which is readable when one of them is. It is an
/// element of the engine's epoll and of that of the resting thread, so a change is one system call.
class SocketWatch {
 public:
  SocketWatch() noexcept = default;
  SocketWatch(const SocketWatch&) = delete;
  SocketWatch& operator=(const SocketWatch&) = delete;

  /// Packets wake the thread that waits for `engine`, an epoll.
  /// The descriptor outlives this.
  [[nodiscard]] Status open(const host::OwnDescriptor& engine) noexcept;
  void close() noexcept;
  /// In a forked child, where the thread that may have held the lock does not exist.
  void forget_in_child() noexcept;
  /// These are the sockets from now on. The system itself forgets a socket that was closed.
  void use(std::span<const int> sockets);
  /// Readable when a socket is.
  [[nodiscard]] int descriptor() const noexcept { return sockets_epoll_.number(); }

  /// Whether packets are to wake the engine. By its thread.
  void wake_engine(bool wanted) noexcept;
  /// By the engine's thread.
  [[nodiscard]] bool wakes_engine() const noexcept {
    return wanted_.load(std::memory_order_relaxed);
  }
  /// Until end_rest() packets do not wake the engine, because they wake a resting thread. If
  /// packets are left then, they wake the engine, unless it leaves them to callers.
  void begin_rest() noexcept;
  void end_rest() noexcept;

 private:
  void update() noexcept VB_REQUIRES(mutex_);

  host::OwnDescriptor sockets_epoll_;
  const host::OwnDescriptor* engine_ = nullptr;
  Mutex mutex_;
  std::vector<int> sockets_ VB_GUARDED_BY(mutex_);
  std::atomic<bool> wanted_{false};  // by the engine
  bool is_left_to_rest_ VB_GUARDED_BY(mutex_) = false;
  bool is_on_ VB_GUARDED_BY(mutex_) = false;  // packets wake the engine
};

}  // namespace verbatim::device
