// SPDX-License-Identifier: Apache-2.0
#include "rehome/run_list.h"

#include <iterator>

namespace verbatim::rehome {

RunList::Runs::const_iterator RunList::first_ending_after(std::uintptr_t address) const noexcept {
  auto next = runs_.upper_bound(address);
  if (next != runs_.begin() && std::prev(next)->second.range.end > address) --next;
  return next;
}

void RunList::split_at(std::uintptr_t address) {
  const auto found = first_ending_after(address);
  if (found == runs_.end() || found->first >= address) return;
  Run& lower = runs_.at(found->first);
  Run upper = lower;
  upper.range.begin = address;
  lower.range.end = address;
  runs_.emplace(address, upper);
}

/// Changes each run of the range, split at the borders of the range, and joins equal neighbours
/// afterwards.
template <typename Edit>
void RunList::change(Range range, Edit&& edit) {
  if (range.empty()) return;
  split_at(range.begin);
  split_at(range.end);
  auto next = runs_.lower_bound(range.begin);
  for (auto run = next; run != runs_.end() && run->first < range.end; ++run) edit(run->second);
  if (next != runs_.begin()) --next;
  while (next != runs_.end() && next->first <= range.end) {
    const auto after = std::next(next);
    const bool is_one = after != runs_.end() && after->first == next->second.range.end &&
                        next->second.is_like(after->second);
    if (!is_one) {
      next = after;
      continue;
    }
    next->second.range.end = after->second.range.end;
    runs_.erase(after);
  }
}

void RunList::insert(const Run& run) {
  if (run.range.empty()) return;
  runs_.emplace(run.range.begin, run);
  change(run.range, [](Run&) {});
}

void RunList::add_one(Range range) {
  change(range, [](Run& run) { ++run.count; });
}

void RunList::drop_one(Range range) {
  change(range, [](Run& run) { run.count -= run.count > 0 ? 1 : 0; });
}

void RunList::lose(Range range) {
  change(range, [](Run& run) { run.is_lost = true; });
}

std::vector<Run> RunList::remove(Range range) {
  std::vector<Run> gone = within(range);
  split_at(range.begin);
  split_at(range.end);
  runs_.erase(runs_.lower_bound(range.begin), runs_.lower_bound(range.end));
  return gone;
}

std::vector<Run> RunList::within(Range range) const {
  std::vector<Run> found;
  for (auto run = first_ending_after(range.begin); run != runs_.end() && run->first < range.end;
       ++run) {
    found.push_back(run->second);
    found.back().range = common(found.back().range, range);
  }
  return found;
}

bool RunList::overlaps(Range range) const noexcept {
  const auto found = first_ending_after(range.begin);
  return found != runs_.end() && found->first < range.end;
}

bool RunList::covers(Range range) const noexcept {
  std::uintptr_t next = range.begin;
  for (auto run = first_ending_after(next); run != runs_.end() && next < range.end; ++run) {
    if (run->first > next || run->second.is_lost) return false;
    next = run->second.range.end;
  }
  return next >= range.end;
}

}  // namespace verbatim::rehome
