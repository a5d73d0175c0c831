// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/expected.h"
#include "base/mutex.h"
#include "rehome/arena.h"
#include "rehome/arena_file.h"
#include "rehome/copying_child.h"
#include "rehome/inheritance_table.h"
#include "rehome/page_mover.h"
#include "rehome/range.h"
#include "rehome/run_list.h"
#include "rehome/signals_blocked.h"
#include "rehome/survey.h"
#include "rehome/watch.h"
#include "rehome/why.h"

namespace verbatim::rehome {

/// Which memory moves.
enum class Policy : std::uint8_t {
  kAutomatic,  // whole pages that are registered
  kEdges,      // likewise, and the pages that a region has in part, with everything on them
  kNever,
};

/// The most runs of pages that move. Each has up to two mappings, and a process may have 65530
/// (vm.max_map_count).
inline constexpr std::size_t kRunsMax = 8192;
/// The most ranges of other memory that are watched; each may split a mapping in three. From half
/// of this number on, ranges without a region are no longer watched.
inline constexpr std::size_t kWatchedMax = 16384;

/// Where the pages of a region are now.
struct Placement {
  Range pages;               // the whole pages that moved, inside the region (kEdges: around it)
  std::uint64_t offset = 0;  // of the first one in the arena
  std::uint64_t detachments = 0;  // detachments() when they moved
  std::uint64_t partings = 0;     // partings() when they moved
};

/// Moves registered memory into the arena: private anonymous pages move into a memory file that
/// peers map, and keep their addresses. It knows nothing of regions but their addresses.
///
/// The program does not notice (decision 0021). Pages move only while the registering thread is the
/// only thread of the program, so no system call can find them missing, and only if the kernel has
/// not pinned them. They stay in the arena when the last region there is deregistered, because the
/// kernel may have pinned them by then. They leave the arena when the program unmaps or empties
/// them.
///
/// One per process; any thread. The calls take a lock, so the caller must not hold an adapter's
/// lock.
class Rehoming {
 public:
  struct Config {
    Policy policy = Policy::kAutomatic;
    Taking taking = Taking::kBest;
    bool dont_fork = false;  // ibv_fork_init(3) was called: children do not inherit moved memory
  };

  Rehoming() noexcept = default;
  explicit Rehoming(const Config& config) noexcept : config_(config) {}
  Rehoming(const Rehoming&) = delete;
  Rehoming& operator=(const Rehoming&) = delete;
  /// Only if nothing was ever moved or watched: the monitor exists as long as the process.
  ~Rehoming() = default;

  void set_policy(Policy policy) noexcept;
  void set_dont_fork() noexcept;
  /// Makes the memory file, so that peers can get it before anything moves.
  void open_arena() noexcept;
  /// The file that peers map.
  [[nodiscard]] const Arena& arena() const noexcept { return arena_; }

  /// From now on the observers are called when the program unmaps any of this memory. False when
  /// the kernel cannot report that.
  bool watch(Range range) noexcept;
  /// Once for each watch() that returned true, when the region is gone.
  void unwatch(Range range) noexcept;
  /// The first step of a registration: waits until other threads have finished unmapping memory,
  /// because the new region may have got their addresses.
  [[nodiscard]] Watch::Moment now() const noexcept { return watch_.now(); }
  [[nodiscard]] bool may_have_unmapped_since(const Watch::Moment& moment) const noexcept {
    return watch_.may_have_unmapped_since(moment);
  }
  /// The last step: whether any of the range was unmapped since. Then the new key may name memory
  /// that was unmapped before the key existed.
  [[nodiscard]] bool has_unmapped_since(const Watch::Moment& moment, Range range) const noexcept {
    return watch_.has_unmapped_since(moment, range);
  }
  [[nodiscard]] bool add_observer(const Watch::Observer& observer) noexcept;
  void remove_observer(const Watch::Observer& observer) noexcept;

  /// Moves the pages of a region, or counts one more region for pages that have moved already.
  /// Every success must be followed by one drop() or detach().
  [[nodiscard]] Expected<Placement, Why> move_in(Range region);

  /// The region is gone, and no peer stores to it any longer.
  void drop(const Placement& placement);

  /// As drop(), when a peer was stopped and may still store: the program's pages become private
  /// copies, and the peer's stores change pages that no program sees. These addresses do not move
  /// again.
  ///
  /// Other regions may contain some of the pages. If so, `withdraw` is called first, with the lock
  /// held: when it returns, no peer that is running reaches the pages through a pointer.
  void detach(const Placement& placement, void (*withdraw)(Range pages));
  /// Calls detach() for every placement that `next` returns, until `next` returns nothing. `next`
  /// takes the placement from a list, with the lock held. So several threads may detach the
  /// placements of one list: when this returns, those that other threads have taken from the list
  /// are detached, too.
  void detach_all(const std::function<std::optional<Placement>()>& next,
                  void (*withdraw)(Range pages));
  /// Counts the calls of detach(). Each call counts before it withdraws anything. If the number has
  /// changed, a placement that its adapter does not know yet is out of date.
  [[nodiscard]] std::uint64_t detachments() const noexcept { return detachments_.load(); }
  /// Counts the forks that have made pages of regions private, likewise.
  [[nodiscard]] std::uint64_t partings() const noexcept { return partings_.load(); }

  /// The handlers of fork(2); the adapters take their locks between them (docs/ARCHITECTURE.md).
  /// lock_for_fork() is the first. Then fork_mode() says how the child gets its memory.
  void lock_for_fork() noexcept VB_ACQUIRE(mutex_);
  enum class ForkMode : std::uint8_t {
    kNothing,  // nothing has moved, or children do not inherit it
    kPrivate,  // parent and child share private pages: first, peers must lose access to the regions
    kCopies,   // the child copies while the parent waits
  };
  [[nodiscard]] ForkMode fork_mode() noexcept VB_REQUIRES(mutex_);
  [[nodiscard]] bool gives_regions_to_children() const noexcept { return !config_.dont_fork; }
  void prepare_fork(ForkMode mode) noexcept VB_REQUIRES(mutex_);
  void after_fork_in_parent() noexcept VB_RELEASE(mutex_);
  void after_fork_in_child() noexcept VB_RELEASE(mutex_);
  /// The same for a fork by a handler of a signal that has interrupted a call of the library, with
  /// signals blocked. They wait for none of the locks that the call or other threads may hold, and
  /// neither allocate memory nor free it. The child copies while the parent waits.
  void prepare_fork_amid_call() noexcept VB_ACQUIRE(amid_call_);
  void after_fork_amid_call_in_parent() noexcept VB_RELEASE(amid_call_);
  void after_fork_amid_call_in_child() noexcept VB_RELEASE(amid_call_) VB_UNCHECKED_LOCKING;

  /// How many changes of mappings were noticed only after the program's call had returned.
  [[nodiscard]] std::uint32_t late_events() const noexcept { return watch_.late_events(); }
  /// Octets that are in the arena and mapped at their own addresses.
  [[nodiscard]] std::size_t moved_octets();

 private:
  /// Holds the lock with signals blocked: a signal handler may fork, and fork takes the lock.
  class VB_SCOPED_CAPABILITY Held {
   public:
    explicit Held(Mutex& mutex) noexcept VB_ACQUIRE(mutex) : lock_(mutex) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() VB_RELEASE() = default;

   private:
    SignalsBlocked quiet_;
    LockGuard<Mutex> lock_;
  };

  [[nodiscard]] Moved judge(Range region, Range pages) const noexcept;
  [[nodiscard]] Moved get_ready(Range first) noexcept VB_REQUIRES(mutex_);
  [[nodiscard]] Moved bring_in(Range pages) VB_REQUIRES(mutex_);
  [[nodiscard]] Moved bring_stretch_in(const Stretch& stretch) VB_REQUIRES(mutex_);
  void watch_again(const std::vector<Run>& watched, Range rest) VB_REQUIRES(mutex_);
  [[nodiscard]] bool make_private_copies(const PageMover::Job& job) VB_REQUIRES(mutex_);
  void detach_now(const Placement& placement, void (*withdraw)(Range pages)) VB_REQUIRES(mutex_);
  void learn_departures() VB_REQUIRES(mutex_);
  void free_lost(Range pages) VB_REQUIRES(mutex_);
  void count_watcher(Range part) VB_REQUIRES(mutex_);
  [[nodiscard]] bool may_be_mapped(Range pages) const noexcept VB_REQUIRES(mutex_);
  [[nodiscard]] std::optional<std::vector<Stretch>> stretches_of(Range pages) const
      VB_REQUIRES(mutex_);
  bool watch_each_mapping(Range pages) noexcept;
  /// False when the mappings cannot be listed.
  template <typename Visit>
  bool for_each_arena_mapping(Range where, Visit&& visit) const;
  [[nodiscard]] bool is_registered(Range pages) const VB_REQUIRES(mutex_);
  void note_inheritance(Range where, InheritanceTable& table, bool with_registered);
  void part_from_child(Range where) VB_REQUIRES(mutex_);
  void take_inheritance(const Inherited& mapping, int file);
  void take_all(const InheritanceTable& table, int file);

  Mutex mutex_;
  Config config_;
  Arena arena_;
  Watch watch_{arena_};
  PageMover mover_;
  RunList runs_
      VB_GUARDED_BY(mutex_);  // pages of the arena that are or were mapped at their addresses
  RunList quarantined_
      VB_GUARDED_BY(mutex_);  // pages that children have, or that a stopped peer may write
  RunList watched_ VB_GUARDED_BY(mutex_);          // other memory whose mappings are watched
  InheritanceTable forked_ VB_GUARDED_BY(mutex_);  // mappings that a child inherits
  bool has_moved_away_ VB_GUARDED_BY(mutex_) =
      false;  // pages of the arena may be mapped outside all runs
  std::atomic<std::uint64_t> detachments_{0};
  std::atomic<std::uint64_t> partings_{0};
  ForkMode fork_ VB_GUARDED_BY(mutex_) = ForkMode::kNothing;
  CopyingChild copying_ VB_GUARDED_BY(mutex_);  // kCopies
  ArenaFile fork_file_ VB_GUARDED_BY(mutex_);   // not kNothing
  Mutex amid_call_;                             // held by a fork in the middle of a call
  InheritanceTable forked_amid_call_ VB_GUARDED_BY(amid_call_);
  CopyingChild copying_amid_call_ VB_GUARDED_BY(amid_call_);
  ArenaFile file_amid_call_ VB_GUARDED_BY(amid_call_);
};

}  // namespace verbatim::rehome
