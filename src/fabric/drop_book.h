// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabric/drop_record.h"

namespace verbatim::fabric {

/// Counts what was discarded, by reason, and remembers the last ones.
class DropBook {
 public:
  static constexpr std::size_t kRecentMax = 256;

  /// `count` packets were discarded for the same reason; the record is of the last one.
  void add(const DropRecord& record, std::uint64_t count = 1) {
    counts_[static_cast<std::size_t>(record.reason)] += count;
    if (recent_.size() < kRecentMax) {
      recent_.push_back(record);
      return;
    }
    recent_[oldest_] = record;
    oldest_ = (oldest_ + 1) % kRecentMax;
  }
  [[nodiscard]] std::uint64_t count(DropReason reason) const noexcept {
    return counts_[static_cast<std::size_t>(reason)];
  }
  /// Oldest first.
  [[nodiscard]] std::vector<DropRecord> recent() const {
    std::vector<DropRecord> records(recent_);
    std::rotate(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(oldest_),
                records.end());
    return records;
  }

 private:
  std::array<std::uint64_t, kDropReasonCount> counts_{};
  std::vector<DropRecord> recent_;  // a ring once it is full
  std::size_t oldest_ = 0;          // its first record then
};

}  // namespace verbatim::fabric
