// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "rehome/range.h"

namespace verbatim::rehome {

/// Neighbouring pages that are alike.
struct Run {
  Range range;
  std::uint32_t count = 0;  // regions that cover every page of the run
  bool is_lost = false;     // the program has other memory there now, or none

  [[nodiscard]] bool is_like(const Run& other) const noexcept {
    return count == other.count && is_lost == other.is_lost;
  }
};

/// How often each page is covered, for any number of overlapping ranges: runs of which no two
/// overlap, and neighbours that are alike are one. Knows nothing of what pages are. An operation
/// takes time with the runs that it concerns, not with those that there are.
class RunList {
 public:
  /// A run whose pages are in no other.
  void insert(const Run& run);
  /// Adds one to the count of every page of the range that is in a run.
  void add_one(Range range);
  /// Takes one from each page of the range that has a count.
  void drop_one(Range range);
  /// The pages of the range that are in a run are lost.
  void lose(Range range);
  /// Takes out what is in the range, whatever its count.
  std::vector<Run> remove(Range range);

  /// The parts of the runs that lie in the range.
  [[nodiscard]] std::vector<Run> within(Range range) const;
  [[nodiscard]] bool overlaps(Range range) const noexcept;
  /// Is every page of the range in a run that is not lost?
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
  using Runs = std::map<std::uintptr_t, Run>;  // by the begin of the range
  template <typename Edit>
  void change(Range range, Edit&& edit);
  void split_at(std::uintptr_t address);
  [[nodiscard]] Runs::const_iterator first_ending_after(std::uintptr_t address) const noexcept;

  Runs runs_;
};

}  // namespace verbatim::rehome
