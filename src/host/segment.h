// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/expected.h"
#include "base/mutex.h"
#include "host/own_descriptor.h"
#include "host/segment_mapping.h"

namespace verbatim::host {

/// The memory file with everything of this process that a local peer may touch. It is sealed
/// against shrinking and mapped once. Blocks are named by their offset, never by address.
///
/// Sizes of blocks are an eighth of a power of two apart, and blocks are reused for the same size.
/// A page exists once it is touched. Two megabytes that are full of small blocks become one huge
/// page, if the system has one: a peer that visits a thousand queue pairs in turn would otherwise
/// wait for page tables as long as for the blocks. Any thread may take and give back.
class Segment {
 public:
  Segment() noexcept = default;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  /// Before any other thread knows it. kNoMemory when the system gives no memory file of that size.
  [[nodiscard]] Status open(std::size_t octets) noexcept VB_UNCHECKED_LOCKING;

  /// A zeroed block, aligned to 64 octets; empty when there is no room.
  [[nodiscard]] std::span<std::byte> take(std::size_t octets) noexcept;
  void give_back(std::span<std::byte> block) noexcept;

  /// In a forked child, which has one thread: the contents stay, but from now on nothing is shared
  /// with the parent.
  void privatize() noexcept VB_UNCHECKED_LOCKING;

  [[nodiscard]] std::size_t offset_of(const std::byte* place) const noexcept {
    return static_cast<std::size_t>(place - base_);
  }
  [[nodiscard]] std::size_t octets() const noexcept { return size_; }
  /// All blocks that were ever handed out lie in the first octets, as many as this.
  [[nodiscard]] std::size_t octets_used() noexcept {
    const LockGuard lock(mutex_);
    return used_;
  }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }

 private:
  /// Blocks of one size.
  struct SizeClass {
    std::size_t index = 0;
    std::size_t octets = 0;
  };
  static constexpr std::size_t kSteps = 8;  // from one power of two to the next
  static constexpr std::size_t kClassCount = 40 * kSteps;
  static SizeClass class_of(std::size_t octets) noexcept;
  /// The next octets that were never used; they are zero. There must be enough of them.
  [[nodiscard]] std::byte* carve(std::size_t octets) noexcept VB_REQUIRES(mutex_);
  void put(std::size_t index, std::byte* block) noexcept VB_REQUIRES(mutex_);

  Mutex mutex_;
  SegmentMapping mapping_;
  std::byte* base_ = nullptr;  // of the mapping
  std::size_t size_ = 0;
  std::size_t used_ VB_GUARDED_BY(mutex_) = 0;  // octets ever handed out
  std::size_t gathered_ VB_GUARDED_BY(mutex_) =
      0;  // of these, the first ones, for which a huge page was tried
  std::size_t dense_from_ VB_GUARDED_BY(mutex_) =
      0;  // end of the last large block, whose pages come and go
  OwnDescriptor descriptor_;
  /// The first free block of each class; a free block names the next one.
  std::array<std::byte*, kClassCount> free_ VB_GUARDED_BY(mutex_){};
};

}  // namespace verbatim::host
