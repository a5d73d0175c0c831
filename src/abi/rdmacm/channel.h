// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>

#include "abi/verbs/handles.h"
#include "base/expected.h"
#include "base/fork_mutex.h"
#include "device/own_descriptor.h"

namespace verbatim::abi {

struct IdHandle;

/// An event on its way to a program, and while the program has it.
struct EventHandle {
  rdma_cm_event event{};
  std::array<std::byte, kSpareOctets> spare{};
  IdHandle* counted = nullptr;  // whose rdma_destroy_id waits until it is acknowledged
  std::array<std::byte, 256> private_data{};
};

/// One lock for all channels, and for which id has which channel and which communication: events
/// are few. It is taken before an adapter's lock, never while one is held.
[[nodiscard]] ForkMutex& events_mutex() noexcept;
/// Notified when an event is acknowledged.
[[nodiscard]] std::condition_variable& events_acknowledged() noexcept;

/// A queue of events behind a descriptor that is readable while there is one: programs poll it,
/// epoll it and make it non-blocking.
class CmChannel {
 public:
  CmChannel() noexcept = default;
  CmChannel(const CmChannel&) = delete;
  CmChannel& operator=(const CmChannel&) = delete;
  ~CmChannel();

  [[nodiscard]] Status open() noexcept;
  [[nodiscard]] rdma_event_channel* public_part() noexcept { return &public_.channel; }

  // With events_mutex() held.
  void push(EventHandle* event);
  [[nodiscard]] EventHandle* pop() noexcept;
  /// Takes out every event that `matches`, and hands each to `taken`.
  template <typename Matches, typename Taken>
  void extract(Matches&& matches, Taken&& taken) {
    std::deque<EventHandle*> kept;
    for (EventHandle* event : waiting_) {
      if (matches(*event)) {
        taken(event);
      } else {
        kept.push_back(event);
      }
    }
    waiting_.swap(kept);
    settle();
  }

  // Without it.
  /// A call of rdma_get_cm_event on this channel, from its first line to its last. wait() counts
  /// the call out if the thread is cancelled there.
  void enter() noexcept { ++inside_; }
  void leave() noexcept { --inside_; }
  /// Within a call: waits for an event as the flags of the descriptor say. False with errno set
  /// when there is none, or a signal came. The thread can be cancelled here. The wait does not
  /// end if the channel is retired and its descriptor was a blocking one.
  [[nodiscard]] bool wait();
  /// rdma_destroy_event_channel. A thread that waits for an event continues to wait, as a thread
  /// does whose descriptor another thread closes. rping and its like destroy the channel while a
  /// thread of theirs is between two calls of rdma_get_cm_event: the object of a retired channel
  /// stays for that thread, until many more have been retired.
  static void retire(CmChannel* channel);

 private:
  void settle() noexcept;
  void drop_events() noexcept;

  struct Public {
    rdma_event_channel channel{.fd = -1};
    std::array<std::byte, kSpareOctets> spare{};
  };
  Public public_{};               // the first member: programs hold a pointer to it
  device::OwnDescriptor reader_;  // the number that the program has
  device::OwnDescriptor bell_;    // the other end of the socket pair
  std::size_t rung_ = 0;          // octets in the socket: at most as many as events, and one if any
  std::atomic<std::uint32_t> inside_{0};     // calls of rdma_get_cm_event
  std::atomic<bool> waits_for_ever_{false};  // retired with a blocking descriptor
  std::deque<EventHandle*> waiting_;
};

}  // namespace verbatim::abi
