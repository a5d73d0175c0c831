// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "base/adapter_role.h"
#include "base/expected.h"
#include "base/mutex.h"
#include "base/time.h"
#include "device/adapter_types.h"
#include "device/poller_rest.h"
#include "device/socket_watch.h"
#include "host/library_thread.h"
#include "host/own_descriptor.h"
#include "host/queue_lock.h"
#include "host/slot.h"
#include "host/wake_pipe.h"
#include "link/link.h"

namespace verbatim::device {

class ManagementPort;
class Network;
class PeerService;
class RegionHomes;

/// The thread of an adapter that does the work for which no thread of the program is in a call:
/// packets, timers, events. It sleeps in the kernel when there is nothing to do. While threads of
/// the program (callers) poll steadily, only they look at the sockets. If packets have waited
/// although callers had been there (programs that poll for their own completion, then spin on
/// memory that the peer will write), the engine watches the sockets in any case, until that proves
/// useless. In a stream of packets it stays awake a little longer than it must
/// (docs/decisions/0017).
///
/// A program may close descriptors that it has not opened, and so those of the engine. Nothing
/// works then: the device reports that it has failed, and the thread only waits for its end.
///
/// All signals are blocked in it: they belong to the program.
class Engine {
 public:
  /// The parts that it drives. All of them outlive the engine.
  struct Parts {
    host::AdapterLock& lock;
    link::Link* const& link;  // the present one
    const host::Slot& slot;
    SocketWatch& sockets;
    PollerRest& rest;
    AdapterProgress& progress;
    ManagementPort& management;
    PeerService& peers;
    const std::unique_ptr<RegionHomes>& homes;
    const Network& network;
    std::function<void()> handle_notice{};  // of the network; without any lock
    std::function<void()> handle_loss{};    // of the descriptors; without any lock
  };
  explicit Engine(Parts parts) : parts_(std::move(parts)) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  /// Makes its descriptors, lets peers attach and starts the thread.
  [[nodiscard]] Status start() noexcept;
  /// Ends the thread and closes the descriptors. Until then the thread uses the parts, and the
  /// parts may call the engine.
  void stop() noexcept;
  /// A forked child has no engine; its descriptors are closed.
  void abandon_in_child() noexcept;

  /// Watches the sockets that the link has now. With the adapter's lock held, after each change of
  /// them. The system itself forgets a socket that was closed.
  void watch_link() VB_REQUIRES(adapter_role);

  /// The eventfd that wakes it.
  [[nodiscard]] const host::OwnDescriptor& bell() const noexcept { return bell_; }
  /// A timer was set that may be earlier than what the engine sleeps for.
  void note_deadline(Instant deadline) noexcept;
  /// Answers wait for the program's next call until then. If a caller has rested a moment ago, the
  /// engine is not woken for that, but looks by itself soon after.
  void note_kept_answers(Instant deadline) noexcept;
  /// A caller begins to rest. The engine wakes up now and then meanwhile, and for a while after.
  void note_rest(Instant at) noexcept;
  /// This thread of the program and others spin and compete for processors. Its time slices become
  /// shorter, and for some time the engine wakes up often: the kernel ends a time slice that is
  /// over when a thread wakes up, and otherwise at its ticks, up to 10 ms apart.
  void note_spinners(Instant at) noexcept;
  /// ManagementPort::deliver_news() is to be called, by the engine's thread when it holds no lock.
  /// With the adapter's lock held.
  void note_management_news() noexcept VB_REQUIRES(adapter_role);
  /// An application thread has just looked at the sockets itself.
  void note_caller(Instant now) noexcept {
    caller_seen_.store(now.since_start().count(), std::memory_order_relaxed);
  }

 private:
  void close() noexcept;
  void run() noexcept;
  [[nodiscard]] bool is_superfluous() const noexcept;
  [[nodiscard]] Instant take_turn() noexcept VB_REQUIRES(adapter_role);
  [[nodiscard]] bool serve_absent_caller() noexcept VB_REQUIRES(adapter_role);
  void leave_to_callers() noexcept;
  void take_news() noexcept;
  void deliver_management_news() noexcept;
  void sleep_until(Instant deadline) noexcept;
  [[nodiscard]] int look_out(std::span<epoll_event> events, Instant deadline) noexcept;
  [[nodiscard]] int wait(std::span<epoll_event> events, Instant deadline) noexcept;
  void end_without_descriptors() noexcept;
  [[nodiscard]] std::uint64_t packets_moved() const noexcept;
  void wake_up_by(Instant at) noexcept;
  [[nodiscard]] Instant end_of_nap_in_a_crowd(Instant at) const noexcept;
  [[nodiscard]] bool was_caller_here(Instant now, Duration within) const noexcept;

  Parts parts_;
  host::LibraryThread thread_;
  host::OwnDescriptor epoll_;
  host::OwnDescriptor bell_;   // an eventfd that wakes it; peers have it as well
  host::WakePipe tether_;      // shows that the program has closed its descriptors
  bool is_lost_ = false;       // the program has closed them
  bool is_streaming_ = false;  // its last turn was one of many
  Instant crowd_until_{};      // until then other threads want its processor
  bool has_requests_ = false;  // the management port is readable
  bool has_rung_ = false;      // its bell was rung
  bool has_news_ = false;      // PeerService has something to read
  bool has_notices_ = false;   // the network has something to say of the port
  bool is_in_turn_ VB_GUARDED_BY(adapter_role) = false;
  std::atomic<bool> has_management_news_{false};
  Duration nap_ = std::chrono::microseconds(10);  // how long it leaves the sockets to callers
  int vigilance_ = 0;                   // wake-ups for which it watches the sockets, callers or not
  std::atomic<std::uint32_t> stop_{0};  // 1: the thread is to end
  std::atomic<Instant> spinners_seen_{};
  std::atomic<std::int64_t> caller_seen_{0};   // nanoseconds
  std::atomic<std::int64_t> sleeps_until_{0};  // nanoseconds; 0: it is awake
};

}  // namespace verbatim::device
