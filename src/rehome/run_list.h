// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "rehome/range.h"

namespace verbatim::rehome {

/// Neighbouring pages that are alike: as many regions cover each, and what belongs to them lies at
/// one distance.
struct Run {
  Range range;
  std::uint32_t count = 0;     // regions that cover every page of the run
  std::uintptr_t parking = 0;  // where the program's own mapping of range.begin waits
  bool dont_fork = false;      // children do not inherit it

  [[nodiscard]] std::uintptr_t parking_of(std::uintptr_t address) const noexcept {
    return parking + (address - range.begin);
  }
};

/// How often each page is covered, for any number of overlapping ranges: sorted runs, no two of
/// which overlap, and neighbours that are alike are one. Knows nothing of what pages are.
class RunList {
 public:
  /// A run whose pages are in no other.
  void insert(const Run& run);
  /// Adds one to the count of every page of the range that is in a run.
  void add_one(Range range);
  /// Takes one from each page of the range; those that come to zero leave the list and are returned
  /// in order.
  [[nodiscard]] std::vector<Run> drop_one(Range range);
  /// Takes out what is in the range, whatever its count.
  std::vector<Run> remove(Range range);

  [[nodiscard]] bool overlaps(Range range) const noexcept;
  /// Is every page of the range in a run?
  [[nodiscard]] bool covers(Range range) const noexcept;
  /// The run with this page; null if there is none. Valid until the list changes.
  [[nodiscard]] const Run* find(std::uintptr_t address) const noexcept;
  [[nodiscard]] const std::vector<Run>& runs() const noexcept { return runs_; }
  void clear() noexcept { runs_.clear(); }

 private:
  void split_at(std::uintptr_t address);
  void merge();
  [[nodiscard]] std::size_t first_ending_after(std::uintptr_t address) const noexcept;

  std::vector<Run> runs_;  // sorted by address
};

}  // namespace verbatim::rehome
