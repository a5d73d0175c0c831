// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <semaphore.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "connect/error.h"
#include "connect/event.h"
#include "connect/lock.h"
#include "device/own_descriptor.h"

namespace verbatim::connect {

/// A queue of events with a descriptor that is readable while the queue has events. Programs poll
/// the descriptor, epoll it and make it non-blocking. Writing never blocks, and no event is lost.
///
/// The owner retires the queue when the program destroys it, and deletes it when no call reads it
/// any more (has_calls()). Both happen without connections_mutex() held, because the ids of
/// requests in the queue end then.
class EventQueue {
 public:
  EventQueue() noexcept;
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;
  ~EventQueue();

  [[nodiscard]] Outcome open() noexcept;
  [[nodiscard]] int descriptor() const noexcept { return reader_.number(); }

  // With connections_mutex() held.
  void push(std::unique_ptr<Event> event) VB_REQUIRES(connections_mutex());
  /// The next event; null when there is none.
  [[nodiscard]] std::unique_ptr<Event> pop() noexcept VB_REQUIRES(connections_mutex());
  /// Removes the events that `counted` counts. The caller destroys them without the lock, because
  /// the ids of requests end with them.
  [[nodiscard]] std::vector<std::unique_ptr<Event>> extract(const Id& counted)
      VB_REQUIRES(connections_mutex());

  // Without it.
  /// Begin and end of a call that reads events. If the thread is cancelled in wait(), wait() calls
  /// leave().
  void enter() noexcept { ++calls_; }
  void leave() noexcept { --calls_; }
  [[nodiscard]] bool has_calls() const noexcept { return calls_ != 0; }
  /// Within a call: waits for an event as the flags of the descriptor say. kTryAgain when there is
  /// none and it must not wait, kInterrupted when a signal came, kClosed when the program has
  /// closed the descriptor. The thread can be cancelled here if the caller lets it. In a queue that
  /// was retired with a blocking descriptor only a signal ends the wait.
  [[nodiscard]] Outcome wait();
  /// Drops the events and closes the descriptors. A thread in wait() continues to wait, as in a
  /// system call whose descriptor another thread closes.
  void retire() noexcept;

 private:
  void update_readable() noexcept VB_REQUIRES(connections_mutex());
  [[nodiscard]] int open_reader() const noexcept;
  [[nodiscard]] int await_octet();

  device::OwnDescriptor reader_;  // the number that the program has
  device::OwnDescriptor bell_;    // the other end of the socket pair
  // The octets in the socket: at most one per event, at least one if there are events.
  std::size_t rung_ VB_GUARDED_BY(connections_mutex()) = 0;
  std::atomic<std::uint32_t> calls_{0};
  sem_t never_posted_;
  std::atomic<bool> waits_for_ever_{false};  // retired with a blocking descriptor
  std::deque<std::unique_ptr<Event>> waiting_ VB_GUARDED_BY(connections_mutex());
};

}  // namespace verbatim::connect
