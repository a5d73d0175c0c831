// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace verbatim::fabric {

/// Entries in the order in which they were pushed. Keeps the memory that it has needed, so that it
/// allocates nothing once it has been as long as it gets.
template <typename Entry>
class RingQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] const Entry& front() const noexcept { return ring_[first_]; }

  void push(const Entry& entry) { add() = entry; }
  /// The new last entry, with any content: small entries are written fastest where they stay.
  [[nodiscard]] Entry& add() {
    if (count_ == ring_.size()) grow();
    return ring_[(first_ + count_++) & (ring_.size() - 1)];
  }
  [[nodiscard]] Entry pop() noexcept {
    Entry& entry = ring_[first_];
    first_ = (first_ + 1) & (ring_.size() - 1);
    --count_;
    return entry;
  }

 private:
  void grow() {
    std::vector<Entry> larger(ring_.empty() ? 64 : 2 * ring_.size());
    for (std::size_t i = 0; i < count_; ++i) larger[i] = ring_[(first_ + i) & (ring_.size() - 1)];
    ring_ = std::move(larger);
    first_ = 0;
  }

  std::vector<Entry> ring_;  // its size is a power of two
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace verbatim::fabric
