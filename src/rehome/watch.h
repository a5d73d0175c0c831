// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "rehome/arena.h"
#include "rehome/changing_calls.h"
#include "rehome/range.h"
#include "rehome/thread_clocks.h"
#include "rehome/userfaults.h"
#include "rehome/why.h"

namespace verbatim::rehome {

/// Learns when the program unmaps, replaces or empties memory that is registered, or was.
///
/// A thread of the adapter, the monitor, reads the events of userfaultfd(2). The thread of the
/// program that unmaps or empties waits in its system call until the monitor has read the event.
/// The monitor acts before it reads: it finds the call in /proc/self/task/TID/syscall. So regions
/// whose memory goes are closed, and emptied memory reads as zeroes, when the program's call
/// returns, however many threads do so at once. A test at the start shows that this works on the
/// kernel that runs.
///
/// The monitor takes no lock but that of the list of listeners, allocates nothing and frees
/// nothing: a thread that holds any lock may wait for it inside of free(3). It has a table of
/// descriptors of its own, so a program that closes descriptors which it did not open does not
/// disturb it.
///
/// One per process; any thread.
class Watch {
 public:
  /// Told of a range that is about to be other memory, or none. Runs on the monitor, with the
  /// restrictions above. Returns whether a region has a page there.
  struct Listener {
    bool (*handle_unmap)(void* context, Range range) noexcept = nullptr;
    void* context = nullptr;
  };

  explicit Watch(Arena& arena) noexcept : arena_(arena) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  /// Only if the monitor never started: it lives as long as the process.
  ~Watch() = default;

  /// Starts the monitor at the first call; the reason why not stays the same then.
  [[nodiscard]] Moved start() noexcept;

  /// The mappings that these pages are of are watched from now on: `pages` is mapped from the
  /// arena, or is any other memory. kUserfaultfd or kRefused where the kernel does not watch.
  [[nodiscard]] Moved add_arena_pages(Range pages) noexcept;
  [[nodiscard]] Moved add_other_pages(Range pages) noexcept;
  /// No longer: the adapter itself is about to change their mapping.
  void remove_arena_pages(Range pages) noexcept;
  void remove_other_pages(Range pages) noexcept;

  /// False when there are too many.
  [[nodiscard]] bool add_listener(const Listener& listener) noexcept;
  void remove_listener(const Listener& listener) noexcept;

  /// A range that the program has unmapped, or moved to another address.
  struct Departure {
    Range range;
    bool is_moved_away = false;
  };
  /// Takes one of them. False when there is none. `has_missed` is set when there were too many to
  /// be kept since the last call.
  [[nodiscard]] bool take_departure(Departure& departure, bool& has_missed) noexcept;
  /// Waits until the monitor has done all that belongs to calls which have returned.
  void wait_until_idle() const noexcept;
  /// As wait_until_idle(), and for calls that have not returned. A thread that is given addresses
  /// which another thread is just unmapping waits, before the monitor may take its new memory for
  /// the old. Not for ever, where calls follow each other without a gap.
  void wait_for_changes() const noexcept;
  /// A point in the order of the program's unmappings.
  struct Moment {
    std::uint64_t unmappings = 0;
    std::uint64_t departures = 0;
  };
  /// After wait_for_changes().
  [[nodiscard]] Moment now() const noexcept;
  /// Whether the program has unmapped any of the range since. A listener that looked too early,
  /// before the caller's stores, is made up for: it has counted before it looked.
  [[nodiscard]] bool has_unmapped_since(const Moment& moment, Range range) const noexcept;
  /// Children have pages of the arena from now on, which must stay when this process unmaps them.
  void keep_pages_of_children() noexcept { keeps_pages_.store(true); }

  /// Events that were read before their calls were found; those of io_uring always are.
  [[nodiscard]] std::uint32_t late_events() const noexcept { return late_.load(); }

  /// In a forked child: the parent's monitor is not there.
  void forget_in_child() noexcept;

 private:
  static constexpr std::size_t kListenersMax = 64;
  static constexpr std::size_t kDeparturesMax = 1024;

  /// One of the two userfaultfds, on the monitor.
  struct Source {
    const Userfaults* faults = nullptr;
    /// Events are left. Threads that wait for these have been woken by the last reading.
    bool is_contended = false;
    ThreadClocks clocks;  // since that reading
  };

  [[nodiscard]] Moved launch() noexcept;
  [[nodiscard]] Moved test() noexcept;
  static void* run(void* watch);
  void monitor() noexcept;
  void handle_event(Source& source) noexcept;
  ChangingCalls act_for_waiting_calls() noexcept;
  void read_event(int descriptor, const ChangingCalls& calls) noexcept;
  bool close_regions(Range range) noexcept;
  void close_unmapped(Range range) noexcept;
  void empty(Range range, bool includes_locked) noexcept;
  void empty_mapping(const Mapping& mapping, Range part) noexcept;
  void leave_empty_memory(Range range) noexcept;
  void replace_by_empty_memory(const Mapping& mapping, Range part) noexcept;
  void handle_departure(const Departure& departure) noexcept;

  Arena& arena_;
  std::mutex mutex_;  // guards the start
  bool has_started_ = false;
  Moved outcome_ = Why::kNoGuard;
  Userfaults arena_faults_;  // of pages of the arena: unmapped, moved, emptied
  Userfaults other_faults_;  // of other registered memory: unmapped, moved
  std::mutex listeners_mutex_;
  std::array<Listener, kListenersMax> listeners_{};
  // From the monitor to one reader at a time.
  std::array<Departure, kDeparturesMax> departures_{};
  std::atomic<std::uint64_t> departures_put_{0};
  std::atomic<std::uint64_t> unmappings_{0};  // that the listeners were told of, or are being told
  std::atomic<std::uint64_t> departures_taken_{0};
  std::atomic<bool> missed_{false};
  std::atomic<bool> keeps_pages_{false};
  std::atomic<bool> has_moved_away_{false};  // pages of the arena may be away from their place
  std::atomic<bool> is_busy_{false};         // from before an event is read until it is dealt with
  std::atomic<std::uint32_t> found_{0};      // events whose call was found before they were read
  std::atomic<std::uint32_t> late_{0};       // other events
  std::atomic<std::uint32_t> ready_{0};      // 1: the monitor has its own descriptors; 2: it failed
};

}  // namespace verbatim::rehome
