// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "rehome/range.h"

namespace verbatim::rehome {

/// Neighbouring pages with the same state.
struct Run {
  Range range;
  std::uint32_t count = 0;  // regions that contain every page of the run
  bool is_lost = false;     // the program has other memory there now, or none

  [[nodiscard]] bool is_like(const Run& other) const noexcept {
    return count == other.count && is_lost == other.is_lost;
  }
};

/// How many ranges cover each page, for any number of overlapping ranges. Runs never overlap, and
/// neighbouring runs with the same state are joined. The cost of an operation grows with the runs
/// in its range, not with all runs.
class RunList {
 public:
  /// Adds a run; its pages must be in no other run.
  void insert(const Run& run);
  /// Adds one to the count of every page of the range that is in a run.
  void add_one(Range range);
  /// Subtracts one from the count of each page of the range that has one.
  void drop_one(Range range);
  /// Marks the pages of the range that are in a run as lost.
  void lose(Range range);
  /// Removes all parts of runs in the range, with any count, and returns them.
  std::vector<Run> remove(Range range);

  /// The parts of the runs that lie in the range.
  [[nodiscard]] std::vector<Run> within(Range range) const;
  [[nodiscard]] bool overlaps(Range range) const noexcept;
  /// Whether every page of the range is in a run that is not lost.
  [[nodiscard]] bool covers(Range range) const noexcept;
  /// Calls `visit(part)` for the parts of the range that no run with a count covers. Allocates
  /// nothing.
  template <typename Visit>
  void for_each_uncounted(Range range, Visit&& visit) const {
    std::uintptr_t next = range.begin;
    for (auto run = first_ending_after(range.begin); run != runs_.end() && run->first < range.end;
         ++run) {
      if (run->second.count == 0) continue;
      if (next < run->first) visit(Range{.begin = next, .end = run->first});
      next = std::max(next, run->second.range.end);
    }
    if (next < range.end) visit(Range{.begin = next, .end = range.end});
  }
  [[nodiscard]] std::vector<Run> runs() const {
    return within({.begin = 0, .end = ~std::uintptr_t{0}});
  }
  [[nodiscard]] bool empty() const noexcept { return runs_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return runs_.size(); }
  void clear() noexcept { runs_.clear(); }

 private:
  using Runs = std::map<std::uintptr_t, Run>;  // by the first address
  template <typename Edit>
  void change(Range range, Edit&& edit);
  void split_at(std::uintptr_t address);
  [[nodiscard]] Runs::const_iterator first_ending_after(std::uintptr_t address) const noexcept;

  Runs runs_;
};

}  // namespace verbatim::rehome
