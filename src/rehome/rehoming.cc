// SPDX-License-Identifier: Apache-2.0
#include "rehome/rehoming.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/pointer.h"
#include "rehome/alone.h"
#include "rehome/mapping_reader.h"
#include "rehome/pinning.h"
#include "rehome/system_call.h"

namespace verbatim::rehome {

namespace {

std::size_t page_octets() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

void Rehoming::set_policy(Policy policy) noexcept {
  const Held held(mutex_);
  config_.policy = policy;
}

void Rehoming::set_dont_fork() noexcept {
  const Held held(mutex_);
  config_.dont_fork = true;
}

void Rehoming::open_arena() noexcept {
  const Held held(mutex_);
  const auto somewhere = numeric_address(this);
  (void)arena_.open({.begin = somewhere, .end = somewhere + 1});  // on failure nothing moves
  watch_.prepare();
}

std::size_t Rehoming::moved_octets() {
  const Held held(mutex_);
  learn_departures();
  const auto runs = runs_.runs();
  return std::accumulate(
      runs.begin(), runs.end(), std::size_t{0},
      [](std::size_t sum, const Run& run) { return sum + (run.is_lost ? 0 : run.range.octets()); });
}

bool Rehoming::add_observer(const Watch::Observer& observer) noexcept {
  return watch_.add_observer(observer);
}

void Rehoming::remove_observer(const Watch::Observer& observer) noexcept {
  watch_.remove_observer(observer);
}

/// The descriptor for the arena watches mappings of the arena that a fork has made private, too.
/// The kernel refuses to watch a range that contains one of them, so each mapping is watched
/// separately.
bool Rehoming::watch_each_mapping(Range pages) noexcept {
  bool is_watched = true;
  const long answer = for_each_mapping(pages.begin, [&](const Mapping& mapping) {
    if (mapping.range.begin >= pages.end) return false;
    if (arena_.is_mapped_by(mapping)) return true;
    is_watched &= watch_.add_other_pages(common(mapping.range, pages)).ok();
    return true;
  });
  return is_watched && answer == 0;
}

bool Rehoming::watch(Range range) noexcept {
  const Held held(mutex_);
  const Range pages = outer_pages(range, page_octets());
  if (pages.empty() || !get_ready(pages)) return false;
  learn_departures();
  if (watched_.size() >= kWatchedMax) return false;
  bool is_watched = true;
  std::uintptr_t next = pages.begin;
  const auto add = [&](Range part) VB_REQUIRES(mutex_) {
    if (part.empty()) return;
    // Also if it was watched before: between an unmapping and its event another thread may have got
    // new memory at these addresses.
    if (!watch_.add_other_pages(part)) {
      is_watched &= watch_each_mapping(part);
      return;
    }
    count_watcher(part);
  };
  // The descriptor for the arena watches the pages of the arena in the range already.
  for (const Run& run : runs_.within(pages)) {
    if (run.is_lost) continue;
    add({.begin = next, .end = run.range.begin});
    next = run.range.end;
  }
  add({.begin = next, .end = pages.end});
  return is_watched;
}

void Rehoming::count_watcher(Range part) {
  std::uintptr_t next = part.begin;
  for (const Run& run : watched_.within(part)) {
    if (next < run.range.begin) watched_.insert({.range = {.begin = next, .end = run.range.begin}});
    next = run.range.end;
  }
  if (next < part.end) watched_.insert({.range = {.begin = next, .end = part.end}});
  watched_.add_one(part);
}

void Rehoming::unwatch(Range range) noexcept {
  const Held held(mutex_);
  learn_departures();
  const Range pages = outer_pages(range, page_octets());
  watched_.drop_one(pages);
  // Programs register the same memory again and again, so it stays watched until it is too much.
  if (watched_.size() < kWatchedMax / 2) return;
  for (const Run& run : watched_.runs()) {
    if (run.count > 0) continue;
    watch_.remove_other_pages(run.range);
    (void)watched_.remove(run.range);
  }
}

Expected<Placement, Why> Rehoming::move_in(Range region) {
  const Held held(mutex_);
  const bool has_edges = config_.policy == Policy::kEdges;
  const Range pages =
      has_edges ? outer_pages(region, page_octets()) : inner_pages(region, page_octets());
  if (const Moved judged = judge(region, pages); !judged) return judged.error();
  if (const Moved ready = get_ready(pages); !ready) return ready.error();
  if (const Moved guarded = watch_.acts_in_time(); !guarded) return guarded.error();
  if (const Moved admitted = arena_.admit(pages); !admitted) return admitted.error();
  learn_departures();
  if (const Moved moved = bring_in(pages); !moved) return moved.error();
  runs_.add_one(pages);
  return Placement{.pages = pages,
                   .offset = arena_.offset_of(pages.begin),
                   .detachments = detachments(),
                   .partings = partings()};
}

Moved Rehoming::judge(Range region, Range pages) const noexcept {
  if (config_.policy == Policy::kNever) return Why::kPolicy;
  if (region.empty() || pages.empty()) return Why::kTooSmall;
  return Ok{};
}

/// Prepares what every move and all watching need: the file, and the monitor.
Moved Rehoming::get_ready(Range first) noexcept {
  if (const Moved opened = arena_.open(first); !opened) return opened;
  return watch_.start();
}

Moved Rehoming::bring_in(Range pages) {
  const auto survey = survey_pages(pages, arena_);
  if (!survey) return survey.error();
  const bool is_there = std::all_of(survey->begin(), survey->end(),
                                    [](const Stretch& stretch) { return stretch.is_in_arena; });
  for (const Stretch& stretch : *survey) {
    if (stretch.is_in_arena) {
      if (!runs_.covers(stretch.range)) return Why::kReplaced;
    } else if (runs_.overlaps(stretch.range) || quarantined_.overlaps(stretch.range)) {
      return Why::kReplaced;
    }
  }
  if (is_there) return Ok{};
  if (!is_alone()) return Why::kThreads;
  if (has_protection_keys()) return Why::kProtectionKey;
  if (runs_.size() >= kRunsMax) return Why::kManyMappings;
  if (!mover_.is_open()) {
    if (const Moved opened = mover_.open(arena_.descriptor(), config_.taking); !opened) {
      return opened;
    }
  }
  // Where the kernel does not refuse pinned pages, a descriptor that may pin prevents the move.
  if (!mover_.notices_pins() && may_have_pinned_pages()) return Why::kPinned;
  for (const Stretch& stretch : *survey) {
    if (stretch.is_in_arena) continue;
    if (const Moved moved = bring_stretch_in(stretch); !moved) return moved;
  }
  return Ok{};
}

/// Pages that have moved before a failure stay in the arena: they are at their addresses and
/// usable.
Moved Rehoming::bring_stretch_in(const Stretch& stretch) {
  const auto watched = watched_.remove(stretch.range);
  for (const Run& run : watched) watch_.remove_other_pages(run.range);
  std::size_t octets = 0;
  Moved moved = mover_.move({.pages = stretch.range,
                             .offset = arena_.offset_of(stretch.range.begin),
                             .protection = stretch.protection},
                            octets);
  const Range done{.begin = stretch.range.begin, .end = stretch.range.begin + octets};
  if (!done.empty()) {
    // A child of _Fork(3) or clone(2), for which no handler runs, has no memory there, instead of
    // pages whose stores would show in the parent.
    (void)kernel::advise(done.begin, done.octets(), MADV_DONTFORK);
    forbid_growth(done, page_octets());
    runs_.insert({.range = done});
    if (const Moved added = watch_.add_arena_pages(done); !added) {
      // It would not read as zeroes after MADV_DONTNEED, so it becomes private again.
      const PageMover::Job job{
          .pages = done, .offset = arena_.offset_of(done.begin), .protection = stretch.protection};
      if (make_private(arena_.descriptor(), job)) (void)copy_all_pages(job);
      quarantined_.insert({.range = done});
      (void)runs_.remove(done);
      if (moved) moved = added;
    }
  }
  if (!moved) watch_again(watched, {.begin = done.end, .end = stretch.range.end});
  return moved;
}

/// Regions that were registered before a move that has failed have been watched since then.
void Rehoming::watch_again(const std::vector<Run>& watched, Range rest) {
  for (Run run : watched) {
    run.range = common(run.range, rest);
    if (!run.range.empty() && watch_.add_other_pages(run.range)) watched_.insert(run);
  }
}

void Rehoming::drop(const Placement& placement) {
  const Held held(mutex_);
  runs_.drop_one(placement.pages);
  learn_departures();
  free_lost(placement.pages);
}

/// Whether the pages of the arena for these addresses are mapped: at their addresses, by mremap(2)
/// of a neighbour that has grown, or at others.
bool Rehoming::may_be_mapped(Range pages) const noexcept {
  const Range everywhere{.begin = 0, .end = ~std::uintptr_t{0}};
  const Range where = has_moved_away_ ? everywhere : pages;
  bool is_found = false;
  const long answer = for_each_mapping(where.begin, [&](const Mapping& mapping) {
    if (mapping.range.begin >= where.end) return false;
    const std::uintptr_t place = arena_.address_of(mapping.offset);
    is_found = arena_.is_mapped_by(mapping) &&
               pages.overlaps({.begin = place, .end = place + mapping.range.octets()});
    return !is_found;
  });
  return is_found || answer != 0;
}

/// Frees pages of the arena that the program has unmapped and that no region contains.
void Rehoming::free_lost(Range pages) {
  for (const Run& run : runs_.within(pages)) {
    if (!run.is_lost || run.count > 0 || may_be_mapped(run.range)) continue;
    (void)runs_.remove(run.range);
    if (!arena_.is_intact()) continue;
    punch(arena_.descriptor(), arena_.offset_of(run.range.begin), run.range.octets());
  }
}

void Rehoming::learn_departures() {
  watch_.wait_until_idle();
  Departure gone;
  bool has_missed = false;
  while (watch_.take_departure(gone, has_missed)) {
    (void)watched_.remove(gone.range);
    runs_.lose(gone.range);
    if (!gone.is_moved_away) {
      free_lost(gone.range);
      continue;
    }
    // The pages are in use at another address, so this part of the arena is never free again.
    has_moved_away_ = true;
    for (const Run& run : runs_.remove(gone.range)) {
      if (!quarantined_.overlaps(run.range)) quarantined_.insert({.range = run.range});
    }
  }
  if (!has_missed) return;
  has_moved_away_ = true;  // perhaps
  watched_.clear();
  for (const Run& run : runs_.runs()) {
    const auto there = stretches_of(run.range);
    if (!there) continue;  // unknown, so nothing is marked as lost
    std::uintptr_t next = run.range.begin;
    for (const Stretch& stretch : *there) {
      runs_.lose({.begin = next, .end = stretch.range.begin});
      next = stretch.range.end;
    }
    runs_.lose({.begin = next, .end = run.range.end});
    free_lost(run.range);
  }
}

/// The parts that are mapped from the arena at their own addresses; nothing when the mappings
/// cannot be read.
std::optional<std::vector<Stretch>> Rehoming::stretches_of(Range pages) const {
  std::vector<Stretch> found;
  const long answer = for_each_arena_stretch(
      pages, arena_, [&](const Stretch& stretch) { found.push_back(stretch); });
  if (answer != 0) return std::nullopt;
  return found;
}

void Rehoming::detach(const Placement& placement, void (*withdraw)(Range pages)) {
  const Held held(mutex_);
  detach_now(placement, withdraw);
}

void Rehoming::detach_all(const std::function<std::optional<Placement>()>& next,
                          void (*withdraw)(Range pages)) {
  bool has_more = true;
  while (has_more) {
    const Held held(mutex_);  // for one placement: other callers wait for no more than that
    const auto placement = next();
    has_more = placement.has_value();
    if (has_more) detach_now(*placement, withdraw);
  }
}

/// If the program has closed the descriptors, the monitor does it, which has its own. Another file
/// may have the number of the arena's descriptor, and would appear in the memory. The monitor takes
/// a change of pages that are still watched for an unmapping by the program.
bool Rehoming::make_private_copies(const PageMover::Job& job) {
  if (!arena_.is_intact() || !watch_.remove_arena_pages(job.pages)) {
    return watch_.make_private_copies(job);
  }
  if (make_private(arena_.descriptor(), job)) (void)copy_all_pages(job);
  (void)watch_.add_arena_pages(job.pages);
  return true;
}

void Rehoming::detach_now(const Placement& placement, void (*withdraw)(Range pages)) {
  runs_.drop_one(placement.pages);
  learn_departures();
  detachments_.fetch_add(1);
  if (is_registered(placement.pages)) withdraw(placement.pages);
  for (const Run& run : runs_.within(placement.pages)) {
    if (run.is_lost) continue;
    for (const Stretch& stretch : stretches_of(run.range).value_or(std::vector<Stretch>{})) {
      const PageMover::Job job{.pages = stretch.range,
                               .offset = arena_.offset_of(stretch.range.begin),
                               .protection = stretch.protection};
      if (make_private_copies(job)) (void)runs_.remove(stretch.range);
    }
  }
  // The peer may store to these places of the arena at any time, also where the program has
  // unmapped the pages.
  (void)quarantined_.remove(placement.pages);
  quarantined_.insert({.range = placement.pages});
  free_lost(placement.pages);
}

}  // namespace verbatim::rehome
