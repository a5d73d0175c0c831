// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "connect/error.h"
#include "connect/event.h"
#include "device/own_descriptor.h"

namespace verbatim::connect {

/// A queue of events behind a descriptor that is readable while there is one: programs poll it,
/// epoll it and make it non-blocking. Writing never blocks, and no event is lost.
///
/// Its owner retires it when the program is done with it, and destroys it when no call is in it any
/// more (has_calls()); both without connections_mutex() held, since the ids of requests that are
/// still in it end with it.
class EventQueue {
 public:
  EventQueue() noexcept = default;
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;
  ~EventQueue();

  [[nodiscard]] Outcome open() noexcept;
  [[nodiscard]] int descriptor() const noexcept { return reader_.number(); }

  // With connections_mutex() held.
  void push(std::unique_ptr<Event> event);
  /// The next event; null when there is none.
  [[nodiscard]] std::unique_ptr<Event> pop() noexcept;
  /// Takes out every event whose acknowledgement the end of `counted` waits for. The caller
  /// destroys them without the lock: the ids of requests go with them.
  [[nodiscard]] std::vector<std::unique_ptr<Event>> extract(const Id& counted);

  // Without it.
  /// A call that reads events, from its first line to its last. wait() counts the call out if the
  /// thread is cancelled there.
  void enter() noexcept { ++calls_; }
  void leave() noexcept { --calls_; }
  [[nodiscard]] bool has_calls() const noexcept { return calls_ != 0; }
  /// Within a call: waits for an event as the flags of the descriptor say. kTryAgain when there is
  /// none and it must not wait, kInterrupted when a signal came, kClosed when the program has
  /// closed the descriptor. The thread can be cancelled here if the caller lets it. In a queue that
  /// was retired with a blocking descriptor only a signal ends the wait.
  [[nodiscard]] Outcome wait();
  /// The program is done with it. Events that were not taken are dropped and the descriptors are
  /// closed. A thread that waits for an event continues to wait, as a thread does whose descriptor
  /// another thread closes.
  void retire() noexcept;

 private:
  void settle() noexcept;
  [[nodiscard]] int open_reader() const noexcept;
  [[nodiscard]] Outcome await_octet();

  device::OwnDescriptor reader_;  // the number that the program has
  device::OwnDescriptor bell_;    // the other end of the socket pair
  std::size_t rung_ = 0;          // octets in the socket: at most as many as events, and one if any
  std::atomic<std::uint32_t> calls_{0};
  std::atomic<bool> waits_for_ever_{false};  // retired with a blocking descriptor
  std::deque<std::unique_ptr<Event>> waiting_;
};

}  // namespace verbatim::connect
