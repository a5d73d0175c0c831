// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "base/mutex.h"
#include "rehome/arena.h"
#include "rehome/changing_calls.h"
#include "rehome/departure_list.h"
#include "rehome/page_mover.h"
#include "rehome/range.h"
#include "rehome/spare_descriptors.h"
#include "rehome/thread_clocks.h"
#include "rehome/userfaults.h"
#include "rehome/why.h"

namespace verbatim::rehome {

/// Learns when the program unmaps, replaces or empties memory that is registered, or was.
///
/// A thread of the library, the monitor, reads the events of userfaultfd(2). A thread of the
/// program that unmaps or empties memory waits in its system call until the monitor has read the
/// event. The monitor acts before it reads the event: it finds the call in
/// /proc/self/task/TID/syscall. So when the program's call returns, regions whose memory is gone
/// are closed, and emptied memory reads as zeroes, even if many threads do so at once. A test at
/// the start checks that this works on the running kernel.
///
/// The monitor takes no lock but that of the list of observers, and neither allocates nor frees
/// memory: a thread that holds any lock may wait for the monitor inside free(3). The monitor has
/// its own table of descriptors, so a program that closes descriptors which it did not open does
/// not affect it.
///
/// One per process; any thread.
class Watch {
 public:
  /// Called for a range that is about to become other memory, or none. Runs on the monitor, with
  /// the restrictions above. Returns whether a region has a page there.
  struct Observer {
    bool (*handle_unmap)(void* context, Range range) noexcept = nullptr;
    void* context = nullptr;
  };

  explicit Watch(Arena& arena) noexcept : arena_(arena) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  /// Only if the monitor was never started: it exists as long as the process.
  ~Watch() = default;

  /// Keeps descriptors for start(). To be called when the arena is open and the program still has
  /// descriptors.
  void prepare() noexcept;
  /// Starts the monitor at the first call. Later calls return the same result, but try again after
  /// kNoDescriptor and kNoMemory. The monitor reports what the program unmaps, if not before the
  /// call returns (acts_in_time()), then a moment later.
  [[nodiscard]] Moved start() noexcept;
  /// After start(). Whether the monitor finds calls before they return, as pages of the arena need
  /// it. kNoGuard where /proc does not show the calls: in a process that other processes of the
  /// user may not trace.
  [[nodiscard]] Moved acts_in_time() noexcept;

  /// From now on the mappings of these pages are watched: `pages` is mapped from the arena, or
  /// (add_other_pages()) is any other memory. kUserfaultfd or kRefused where the kernel does not
  /// watch.
  [[nodiscard]] Moved add_arena_pages(Range pages) noexcept;
  [[nodiscard]] Moved add_other_pages(Range pages) noexcept;
  /// Ends the watching: the library is about to change the mapping itself. False when the pages are
  /// still watched, because the program has closed the descriptor.
  bool remove_arena_pages(Range pages) noexcept;
  void remove_other_pages(Range pages) noexcept;

  /// Makes pages of the arena private copies, on the monitor: for a caller without the descriptors
  /// because the program has closed them. One caller at a time. False when the monitor cannot be
  /// told, or cannot do it.
  [[nodiscard]] bool make_private_copies(const PageMover::Job& job) noexcept;

  /// Opens the file of the arena once more, by the descriptor in the monitor's table: for a caller
  /// whose own descriptor the program has closed. Negative when the system refuses. Allocates
  /// nothing.
  [[nodiscard]] long open_arena() const noexcept;

  /// False when there are too many.
  [[nodiscard]] bool add_observer(const Observer& observer) noexcept;
  void remove_observer(const Observer& observer) noexcept;

  /// Takes the oldest departure. False when there is none. `has_missed` is set when some were lost
  /// since the last call, because there were too many.
  [[nodiscard]] bool take_departure(Departure& departure, bool& has_missed) noexcept {
    return departures_.take(departure, has_missed);
  }
  /// Waits until the monitor has finished everything that belongs to calls which have returned.
  void wait_until_idle() const noexcept;
  /// As wait_until_idle(), and also for calls that have not returned. The kernel may give a thread
  /// addresses that another thread is still unmapping. The first thread waits here, so that the
  /// monitor does not take its new memory for the old. The wait is limited, for the case that calls
  /// follow each other without a gap.
  void wait_for_changes() const noexcept;
  /// A point in the order of the program's unmappings.
  struct Moment {
    std::uint64_t unmappings = 0;
    DepartureList::Moment departures{};
  };
  /// Calls wait_for_changes() first.
  [[nodiscard]] Moment now() const noexcept;
  /// False when the program has unmapped nothing since. Does not wait. If the caller has published
  /// something before, the observers of a later unmapping find it.
  [[nodiscard]] bool may_have_unmapped_since(const Moment& moment) const noexcept;
  /// Whether the program has unmapped any of the range since. This also detects an unmapping whose
  /// observers ran before the caller's stores: the monitor counts before it calls the observers.
  [[nodiscard]] bool has_unmapped_since(const Moment& moment, Range range) const noexcept;
  /// From now on children have pages of the arena, which must stay when this process unmaps them.
  void keep_pages_of_children() noexcept { keeps_pages_.store(true); }

  /// Events that were read before their calls were found; calls of io_uring are never found.
  [[nodiscard]] std::uint32_t late_events() const noexcept { return late_.load(); }

  /// In a forked child, which has one thread: the monitor does not exist there.
  void forget_in_child() noexcept VB_UNCHECKED_LOCKING;

 private:
  static constexpr std::size_t kObserversMax = 64;

  /// One of the two userfaultfds, on the monitor.
  struct Source {
    const Userfaults* faults = nullptr;
    /// Unread events are left. The last reading has woken the threads that wait for them.
    bool is_contended = false;
    ThreadClocks clocks;  // since that reading
  };

  [[nodiscard]] Moved launch() noexcept VB_REQUIRES(mutex_);
  [[nodiscard]] Moved test() noexcept;
  static void* run(void* watch);
  void monitor() noexcept;
  void handle_event(Source& source) noexcept;
  void put_bell() noexcept;
  void execute_command() noexcept;
  ChangingCalls act_for_waiting_calls() noexcept;
  void read_event(int descriptor, const ChangingCalls& calls) noexcept;
  bool close_regions(Range range) noexcept;
  void close_unmapped(Range range) noexcept;
  void empty(Range range, bool includes_locked) noexcept;
  void empty_mapping(const Mapping& mapping, Range part) noexcept;
  void leave_empty_memory(Range range) noexcept;
  void replace_by_empty_memory(const Mapping& mapping, Range part) noexcept;
  void handle_departure(const Departure& departure) noexcept;

  /// A command of one thread to the monitor.
  struct Command {
    enum class State : std::uint8_t { kNone, kWanted, kDone };
    enum class Kind : std::uint8_t { kMakePrivateCopies, kWatchOtherPages };

    Kind kind{};
    PageMover::Job job{};
    bool has_succeeded = false;  // when it is done
    std::atomic<State> state{State::kNone};
  };

  [[nodiscard]] bool command(Command::Kind kind, const PageMover::Job& job) noexcept;

  Arena& arena_;
  Command command_;
  // A watched page of the library, or 0. To unmap it wakes the monitor up, without a descriptor.
  std::atomic<std::uintptr_t> bell_{0};
  Mutex mutex_;
  bool has_started_ VB_GUARDED_BY(mutex_) = false;
  Moved outcome_ VB_GUARDED_BY(mutex_) = Why::kNoGuard;
  SpareDescriptors spares_ VB_GUARDED_BY(mutex_);
  Moved test_outcome_ VB_GUARDED_BY(mutex_) = Why::kNoGuard;
  std::atomic<bool> searches_long_{true};  // for the call of an event
  Userfaults arena_faults_;                // for pages of the arena: unmapped, moved, emptied
  Userfaults other_faults_;                // for other registered memory: unmapped, moved
  Mutex observers_mutex_;
  std::array<Observer, kObserversMax> observers_ VB_GUARDED_BY(observers_mutex_){};
  DepartureList departures_;                  // from the monitor to one reader at a time
  std::atomic<std::uint64_t> unmappings_{0};  // counted before the observers are called
  std::atomic<bool> keeps_pages_{false};
  std::atomic<bool> has_moved_away_{false};  // pages of the arena may be at other addresses
  std::atomic<bool> is_busy_{false};         // from before an event is read until it is handled
  std::atomic<std::uint32_t> found_{0};      // events whose call was found before they were read
  std::atomic<std::uint32_t> late_{0};       // other events
  std::atomic<std::uint32_t> ready_{0};      // 1: the monitor has its own descriptors; 2: it failed
  std::atomic<pid_t> monitor_{0};            // its thread; 0: none
};

}  // namespace verbatim::rehome
