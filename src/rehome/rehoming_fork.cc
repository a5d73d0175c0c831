// SPDX-License-Identifier: Apache-2.0
// Rehoming and fork(2). A parked mapping is private memory of the right kind and has no pages: the
// parent fills it before the fork, and the child puts it back to its place.
#include "rehome/rehoming.h"
#include "rehome/survey.h"
#include "rehome/system_call.h"

namespace verbatim::rehome {

void Rehoming::before_fork() {
  mutex_.lock();
  arena_.hold_views();
  has_fork_copies_ = arena_.is_intact();
  for (const Run& run : runs_.runs()) {
    if (run.dont_fork || !has_fork_copies_) continue;
    const std::size_t octets = run.range.octets();
    const Range parking{.begin = run.parking, .end = run.parking + octets};
    has_fork_copies_ =
        kernel::call(SYS_mprotect, parking.begin, octets, PROT_READ | PROT_WRITE) == 0 &&
        copy_out(arena_.descriptor(), arena_.offset_of(run.range.begin), parking).ok();
  }
}

void Rehoming::after_fork_in_parent() {
  for (const Run& run : runs_.runs()) {
    if (!run.dont_fork) (void)kernel::advise(run.parking, run.range.octets(), MADV_DONTNEED);
  }
  arena_.let_views_go();
  mutex_.unlock();
}

void Rehoming::after_fork_in_child() {
  arena_.let_views_go();
  for (const Run& run : runs_.runs()) adopt(run);
  runs_.clear();
  quarantined_.clear();
  arena_.leave();
  mutex_.unlock();
}

/// In the child: what it has inherited of the arena becomes its own.
void Rehoming::adopt(const Run& run) {
  RunList left;
  left.insert(run);
  Survey found;
  Moved looked = Why::kManyMappings;
  for (int round = 0; round < kRoundsMax && !looked && arena_.is_intact(); ++round) {
    looked = survey_arena(run.range, arena_, found);
    for (const Stretch& stretch : found) adopt(stretch, run, left);
  }
  for (const Run& unused : left.runs()) kernel::unmap(unused.parking, unused.range.octets());
}

void Rehoming::adopt(const Stretch& stretch, const Run& run, RunList& left) {
  const std::uintptr_t home = arena_.address_of(stretch.offset);
  const std::uintptr_t parking = run.parking_of(home);
  if (has_fork_copies_ && !run.dont_fork && stretch.range.begin == home &&
      kernel::call(SYS_mprotect, parking, stretch.range.octets(), stretch.protection) == 0 &&
      return_parked(parking, stretch.range).ok()) {
    (void)left.remove(stretch.range);
    return;
  }
  // Later stores of the parent may show in here, but none of ours in the parent.
  (void)make_private(
      arena_.descriptor(),
      {.range = stretch.range, .offset = stretch.offset, .protection = stretch.protection});
}

}  // namespace verbatim::rehome
