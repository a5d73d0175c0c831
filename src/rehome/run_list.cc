// SPDX-License-Identifier: Apache-2.0
#include "rehome/run_list.h"

#include <algorithm>

namespace verbatim::rehome {

namespace {

using Difference = std::vector<Run>::difference_type;

bool are_one(const Run& a, const Run& b) noexcept {
  return a.range.end == b.range.begin && a.count == b.count && a.dont_fork == b.dont_fork &&
         a.parking_of(a.range.end) == b.parking;
}

}  // namespace

std::size_t RunList::first_ending_after(std::uintptr_t address) const noexcept {
  const auto found =
      std::ranges::partition_point(runs_, [&](const Run& run) { return run.range.end <= address; });
  return static_cast<std::size_t>(found - runs_.begin());
}

void RunList::split_at(std::uintptr_t address) {
  const std::size_t index = first_ending_after(address);
  if (index == runs_.size() || runs_[index].range.begin >= address) return;
  Run upper = runs_[index];
  upper.parking = upper.parking_of(address);
  upper.range.begin = address;
  runs_[index].range.end = address;
  runs_.insert(runs_.begin() + static_cast<Difference>(index) + 1, upper);
}

void RunList::merge() {
  std::size_t kept = 0;
  for (std::size_t i = 1; i < runs_.size(); ++i) {
    if (are_one(runs_[kept], runs_[i])) {
      runs_[kept].range.end = runs_[i].range.end;
    } else {
      runs_[++kept] = runs_[i];
    }
  }
  if (!runs_.empty()) runs_.resize(kept + 1);
}

void RunList::insert(const Run& run) {
  if (run.range.empty()) return;
  const auto index = static_cast<Difference>(first_ending_after(run.range.begin));
  runs_.insert(runs_.begin() + index, run);
  merge();
}

void RunList::add_one(Range range) {
  split_at(range.begin);
  split_at(range.end);
  for (std::size_t i = first_ending_after(range.begin);
       i < runs_.size() && runs_[i].range.begin < range.end; ++i) {
    ++runs_[i].count;
  }
  merge();
}

std::vector<Run> RunList::drop_one(Range range) {
  split_at(range.begin);
  split_at(range.end);
  std::vector<Run> gone;
  const std::size_t first = first_ending_after(range.begin);
  std::size_t kept = first;
  std::size_t next = first;
  for (; next < runs_.size() && runs_[next].range.begin < range.end; ++next) {
    Run& run = runs_[next];
    if (run.count > 0) --run.count;
    if (run.count == 0) {
      gone.push_back(run);
    } else {
      runs_[kept++] = run;
    }
  }
  runs_.erase(runs_.begin() + static_cast<Difference>(kept),
              runs_.begin() + static_cast<Difference>(next));
  merge();
  return gone;
}

std::vector<Run> RunList::remove(Range range) {
  split_at(range.begin);
  split_at(range.end);
  const auto first = static_cast<Difference>(first_ending_after(range.begin));
  const auto last = std::ranges::find_if(runs_.begin() + first, runs_.end(), [&](const Run& run) {
    return run.range.begin >= range.end;
  });
  std::vector<Run> gone(runs_.begin() + first, last);
  runs_.erase(runs_.begin() + first, last);
  return gone;
}

bool RunList::overlaps(Range range) const noexcept {
  const std::size_t index = first_ending_after(range.begin);
  return index < runs_.size() && runs_[index].range.overlaps(range);
}

const Run* RunList::find(std::uintptr_t address) const noexcept {
  const std::size_t index = first_ending_after(address);
  return index < runs_.size() && runs_[index].range.contains(address) ? &runs_[index] : nullptr;
}

bool RunList::covers(Range range) const noexcept {
  std::uintptr_t covered = range.begin;
  for (std::size_t i = first_ending_after(range.begin); i < runs_.size() && covered < range.end;
       ++i) {
    if (runs_[i].range.begin > covered) return false;
    covered = runs_[i].range.end;
  }
  return covered >= range.end;
}

}  // namespace verbatim::rehome
