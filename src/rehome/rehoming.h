// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "base/expected.h"
#include "base/time.h"
#include "rehome/arena.h"
#include "rehome/page_mover.h"
#include "rehome/range.h"
#include "rehome/run_list.h"
#include "rehome/survey.h"
#include "rehome/why.h"

namespace verbatim::rehome {

/// Which memory moves.
enum class Policy : std::uint8_t {
  kAutomatic,  // what is worth it, and where nothing may have pinned the pages
  kAlways,     // whatever can move, and the pages at the edges of a range with all that is on them
  kNever,
};

/// From this size on a range is worth moving: a page. Measured (bench/rehome_bench.cc, a 2-core
/// Neoverse-V1): in and back cost 80 us and 1.1 ms for each further MiB. Against a system call for
/// each WRITE they have paid after 110 WRITEs of a whole page, 47 of 64 KiB, 18 of a MiB or more,
/// or 200 of 8 octets into any of these. So it is the life of a region that decides, not its size.
inline constexpr std::size_t kWorthMovingOctets = 4096;

/// Runs of pages that move at most unless told to. Each has up to four mappings, and a process has
/// 65530 of them (vm.max_map_count).
inline constexpr std::size_t kRunsMax = 8192;

/// Where the pages of a range are now.
struct Placement {
  Range pages;               // the whole pages that moved, inside of the range (around it: kAlways)
  std::uint64_t offset = 0;  // of the first one in the arena
  Instant moved_at;
};

/// Gives registered memory a new home: private anonymous pages move into a memory file that peers
/// map, at the address where they are, under the program's running threads; and back when no region
/// needs them any longer. It knows nothing of regions but their addresses.
///
/// Pages that several ranges cover move once, and back with the last. What the program has unmapped
/// or replaced meanwhile is left alone, what it has mremap(2)ed elsewhere moves back to private
/// memory there. Memory that is moved differs from other memory in three ways: MADV_DONTNEED does
/// not zero it, it is shared with children unless the fork handlers below are called, and mremap(2)
/// cannot enlarge it.
///
/// One per process; any thread. Calls wait for each other.
class Rehoming {
 public:
  struct Config {
    Policy policy = Policy::kAutomatic;
    Guarding guarding = Guarding::kBest;
    bool dont_fork = false;  // ibv_fork_init(3) was called: children do not inherit what moves
  };

  Rehoming() noexcept = default;
  explicit Rehoming(const Config& config) noexcept : config_(config) {}
  Rehoming(const Rehoming&) = delete;
  Rehoming& operator=(const Rehoming&) = delete;
  /// What has not moved back stays where it is, and goes on working.
  ~Rehoming() = default;

  void set_dont_fork() noexcept;

  /// Moves the pages of a range in, or counts one more range for those that are there. Every
  /// success is followed by one move_back() or orphan().
  [[nodiscard]] Expected<Placement, Why> move_in(Range range, Instant now);

  /// No peer stores there any longer.
  void move_back(const Placement& placement, Instant now);

  /// As move_back(), for a peer that stopped and may still store: its stores hit pages that nobody
  /// looks at. The addresses do not move in again until release().
  void orphan(const Placement& placement, Instant now);
  void release(Range pages);

  /// The handlers of pthread_atfork(3). The child gets copies of its own of what moved, made before
  /// the fork; it starts without an arena, and may go on to move memory into one of its own.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

  /// Nobody needs the file for now: if nothing is in it, it is closed; the next move makes another.
  void rest();
  /// The file that peers map.
  [[nodiscard]] Arena& arena() noexcept { return arena_; }
  /// Octets that are moved now.
  [[nodiscard]] std::size_t moved_octets();

 private:
  /// Looks at the mappings of a range: more than one where they are many, or one way has failed.
  static constexpr int kRoundsMax = 1024;
  static constexpr std::size_t kShortLivedMax = 64;  // ranges remembered; then the oldest goes

  [[nodiscard]] Moved judge(Range range, Range pages) const noexcept;
  [[nodiscard]] bool is_short_lived(Range pages) const noexcept;
  [[nodiscard]] Moved bring_in(Range pages);
  [[nodiscard]] Moved bring_stretch_in(PageMover& mover, Range stretch, int protection);
  void bring_home_all(const std::vector<Run>& runs);
  void bring_home(const Run& run, PageMover& mover, bool is_guarded);
  std::vector<Run> give_up(const Placement& placement, Instant now);
  void retry_stranded();
  void adopt(const Run& run);
  void adopt(const Stretch& stretch, const Run& run, RunList& left);

  std::mutex mutex_;
  Config config_;
  Arena arena_;
  RunList runs_;         // what is in the arena; count 0 where moving back failed
  RunList quarantined_;  // where a stopped peer may store
  std::array<Range, kShortLivedMax> short_lived_{};
  std::size_t next_short_lived_ = 0;
  bool has_fork_copies_ = false;  // between before_fork() and its end
};

}  // namespace verbatim::rehome
