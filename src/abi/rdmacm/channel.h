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

  /// Without it: waits for an event as the flags of the descriptor say. False with errno set when
  /// there is none, or a signal came. The thread can be cancelled here.
  [[nodiscard]] bool wait();
  /// The program is done with it. A thread that waits in it goes on to wait, as it does with a
  /// descriptor that is closed under it; what it needs for that stays.
  static void discard(CmChannel* channel) noexcept;

 private:
  void settle() noexcept;

  struct Public {
    rdma_event_channel channel{.fd = -1};
    std::array<std::byte, kSpareOctets> spare{};
  };
  Public public_{};               // the first member: programs hold a pointer to it
  device::OwnDescriptor reader_;  // the number that the program has
  device::OwnDescriptor bell_;    // the other end of the socket pair
  std::size_t rung_ = 0;          // octets in the socket: at most as many as events, and one if any
  std::atomic<std::uint32_t> waiters_{0};  // threads in wait()
  std::deque<EventHandle*> waiting_;
};

}  // namespace verbatim::abi
