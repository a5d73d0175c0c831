// SPDX-License-Identifier: Apache-2.0
#include "rehome/rehoming.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "rehome/pinning.h"
#include "rehome/survey.h"
#include "rehome/system_call.h"

namespace verbatim::rehome {

namespace {

using namespace std::chrono_literals;

/// A range that lives shorter was not worth moving: about ten times what moving in and back costs,
/// 0.4 ms each for a MiB, and something for the decision.
constexpr Duration kShortLife = 20ms;
constexpr Duration kShortLifePerMebi = 8ms;
constexpr std::size_t kMebi = std::size_t{1} << 20;

std::size_t page_octets() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

/// Addresses where nothing is yet.
Expected<std::uintptr_t, Why> reserve(std::size_t octets, int protection) noexcept {
  const long at =
      kernel::map(0, octets, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (kernel::failed(at)) return Why::kNoMemory;
  return static_cast<std::uintptr_t>(at);
}

/// mremap(2) enlarges what is one mapping. Beyond its end in the arena lies the memory of others,
/// so the last page is made a mapping of its own: an advice that means nothing for memory.
void forbid_growth(Range pages, std::size_t page) noexcept {
  (void)kernel::advise(pages.end - page, page, MADV_RANDOM);
}

PageMover::Job job_of(const Stretch& stretch) noexcept {
  return {.range = stretch.range, .offset = stretch.offset, .protection = stretch.protection};
}

/// The program's pages are where it has put them: at home, or elsewhere, where nothing is parked.
/// Takes from `left` what has come home.
bool bring_stretch_home(const Stretch& stretch, PageMover& mover, const Arena& arena,
                        RunList& left) {
  PageMover::Job job = job_of(stretch);
  const std::uintptr_t home = arena.address_of(stretch.offset);
  const Run* run = left.find(home);
  const bool is_at_home = run != nullptr && stretch.range.begin == home;
  if (is_at_home) {
    job.parking = run->parking_of(home);
  } else if (const auto scratch = reserve(stretch.range.octets(), stretch.protection)) {
    job.parking = *scratch;
  } else {
    return false;
  }
  const bool moved = mover.move_back(job).ok();
  if (is_at_home) {
    (void)left.remove({.begin = job.range.end, .end = stretch.range.end});
  } else if (!moved) {
    kernel::unmap(job.parking, job.range.octets());
  }
  return moved;
}

}  // namespace

void Rehoming::set_dont_fork() noexcept {
  const std::lock_guard lock(mutex_);
  config_.dont_fork = true;
}

void Rehoming::rest() {
  const std::lock_guard lock(mutex_);
  if (runs_.runs().empty() && quarantined_.runs().empty()) arena_.leave();
}

std::size_t Rehoming::moved_octets() {
  const std::lock_guard lock(mutex_);
  return std::accumulate(runs_.runs().begin(), runs_.runs().end(), std::size_t{0},
                         [](std::size_t sum, const Run& run) { return sum + run.range.octets(); });
}

Expected<Placement, Why> Rehoming::move_in(Range range, Instant now) {
  const std::lock_guard lock(mutex_);
  const bool whole = config_.policy == Policy::kAlways;
  const Range pages = whole ? outer_pages(range, page_octets()) : inner_pages(range, page_octets());
  if (const Moved judged = judge(range, pages); !judged) return judged.error();
  if (const Moved opened = arena_.open(pages); !opened) return opened.error();
  if (const Moved admitted = arena_.admit(pages); !admitted) return admitted.error();
  retry_stranded();
  if (const Moved moved = bring_in(pages); !moved) return moved.error();
  runs_.add_one(pages);
  return Placement{.pages = pages, .offset = arena_.offset_of(pages.begin), .moved_at = now};
}

Moved Rehoming::judge(Range range, Range pages) const noexcept {
  if (config_.policy == Policy::kNever) return Why::kPolicy;
  if (range.empty() || pages.empty()) return Why::kTooSmall;
  if (config_.policy == Policy::kAlways) return Ok{};
  if (pages.octets() < kWorthMovingOctets) return Why::kTooSmall;
  if (is_short_lived(pages)) return Why::kShortLived;
  if (runs_.covers(pages)) return Ok{};
  if (runs_.runs().size() >= kRunsMax) return Why::kManyMappings;
  if (holds_a_pinning_descriptor()) return Why::kPinned;
  return Ok{};
}

bool Rehoming::is_short_lived(Range pages) const noexcept {
  return std::ranges::any_of(short_lived_,
                             [&](Range known) { return !known.empty() && known.covers(pages); });
}

Moved Rehoming::bring_in(Range pages) {
  const auto survey = survey_pages(pages, arena_);
  if (!survey) return survey.error();
  for (const Stretch& stretch : *survey) {
    const bool is_known =
        stretch.is_in_arena ? runs_.covers(stretch.range) : !runs_.overlaps(stretch.range);
    if (!is_known) return Why::kReplaced;
    if (!stretch.is_in_arena && quarantined_.overlaps(stretch.range)) return Why::kQuarantined;
  }
  PageMover mover(arena_);
  const bool is_there = runs_.covers(pages);
  Moved moved = is_there ? Moved(Ok{}) : mover.open(config_.guarding);
  const Stretch* next = survey->begin();
  for (; moved && next != survey->end(); ++next) {
    if (!next->is_in_arena) moved = bring_stretch_in(mover, next->range, next->protection);
  }
  if (moved && !is_there) forbid_growth(pages, page_octets());
  if (!moved) retry_stranded();  // what has come in so far is nobody's
  return moved;
}

Moved Rehoming::bring_stretch_in(PageMover& mover, Range stretch, int protection) {
  const auto parking = reserve(stretch.octets(), PROT_NONE);
  if (!parking) return parking.error();
  PageMover::Job job{.range = stretch,
                     .parking = *parking,
                     .offset = arena_.offset_of(stretch.begin),
                     .protection = protection,
                     .dont_fork = config_.dont_fork};
  const Moved moved = mover.move_in(job);
  runs_.insert({.range = {.begin = stretch.begin, .end = job.range.begin},
                .count = 0,
                .parking = *parking,
                .dont_fork = config_.dont_fork});
  return moved;
}

void Rehoming::move_back(const Placement& placement, Instant now) {
  const std::lock_guard lock(mutex_);
  bring_home_all(give_up(placement, now));
  retry_stranded();
}

void Rehoming::orphan(const Placement& placement, Instant now) {
  const std::lock_guard lock(mutex_);
  const std::vector<Run> runs = give_up(placement, now);
  bring_home_all(runs);
  for (const Run& run : runs) quarantined_.insert({.range = run.range});
}

void Rehoming::release(Range pages) {
  const std::lock_guard lock(mutex_);
  for (const Run& run : quarantined_.remove(pages)) {
    if (!arena_.is_intact()) continue;
    punch(arena_.descriptor(), arena_.offset_of(run.range.begin), run.range.octets());
  }
}

std::vector<Run> Rehoming::give_up(const Placement& placement, Instant now) {
  const Duration short_life =
      kShortLife + kShortLifePerMebi * static_cast<int>(placement.pages.octets() / kMebi);
  std::vector<Run> runs = runs_.drop_one(placement.pages);
  if (!runs.empty() && now - placement.moved_at < short_life && !is_short_lived(placement.pages)) {
    short_lived_[next_short_lived_] = placement.pages;
    next_short_lived_ = (next_short_lived_ + 1) % kShortLivedMax;
  }
  return runs;
}

void Rehoming::retry_stranded() {
  std::vector<Run> stranded;
  for (const Run& run : runs_.runs()) {
    if (run.count == 0) stranded.push_back(run);
  }
  for (const Run& run : stranded) (void)runs_.remove(run.range);
  bring_home_all(stranded);
}

void Rehoming::bring_home_all(const std::vector<Run>& runs) {
  if (runs.empty()) return;
  PageMover mover(arena_);
  const bool is_guarded = mover.open(config_.guarding).ok();
  for (const Run& run : runs) bring_home(run, mover, is_guarded);
}

void Rehoming::bring_home(const Run& run, PageMover& mover, bool is_guarded) {
  RunList left;  // what has not come home, and so has a parked mapping
  left.insert({.range = run.range, .parking = run.parking, .dont_fork = run.dont_fork});
  Survey found;
  for (int round = 0; round < kRoundsMax && arena_.is_intact(); ++round) {
    const Moved looked = survey_arena(run.range, arena_, found);
    if (!looked && looked.error() != Why::kManyMappings) break;
    bool is_done = looked.ok();
    for (const Stretch& stretch : found) {
      const bool came = is_guarded ? bring_stretch_home(stretch, mover, arena_, left)
                                   : make_private(arena_.descriptor(), job_of(stretch)).ok();
      // What the kernel refuses once is done the other way when it is looked for again.
      is_done &= came;
      is_guarded &= came;
    }
    if (!is_done) continue;
    for (const Run& unused : left.runs()) kernel::unmap(unused.parking, unused.range.octets());
    punch(arena_.descriptor(), arena_.offset_of(run.range.begin), run.range.octets());
    return;
  }
  for (const Run& stranded : left.runs()) runs_.insert(stranded);
}

}  // namespace verbatim::rehome
