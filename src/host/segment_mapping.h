// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>

#include "base/mutex.h"
#include "host/huge_pages.h"

namespace verbatim::host {

/// A shared mapping of a segment, of this process or of a peer.
///
/// The mapping is as long as the file, and nearly all of it is never used. The kernel must not give
/// it pages for another reason than a store of the library:
///   - core dumps leave the mapping out. Otherwise the kernel would write all octets of the file,
///     and allocate each page for that;
///   - only the first octets are accessible, as many as are in use. mlockall(2) allocates all pages
///     that are accessible.
///
/// Its owner serialises map() and unmap() with everything else. Any thread may call open_up_to().
class SegmentMapping {
 public:
  /// What is accessible grows in steps of this size.
  static constexpr std::size_t kStep = kHugePageOctets;

  SegmentMapping() noexcept = default;
  SegmentMapping(const SegmentMapping&) = delete;
  SegmentMapping& operator=(const SegmentMapping&) = delete;
  /// Does not unmap(): a child does not have the mapping of its parent.
  ~SegmentMapping() = default;

  /// Maps the file from its beginning; nothing is accessible. False when the system refuses.
  [[nodiscard]] bool map(int file, std::size_t octets) noexcept;
  void unmap() noexcept;

  [[nodiscard]] std::byte* begin() const noexcept { return begin_; }  // null: not mapped
  [[nodiscard]] std::size_t octets() const noexcept { return octets_; }

  /// Makes at least the first `end` octets accessible, which do not become less. False when the
  /// mapping is shorter, or the system refuses.
  [[nodiscard]] bool open_up_to(std::size_t end) noexcept {
    return end <= accessible_.load(std::memory_order_acquire) || grow(end);
  }

  /// In a forked child, which has one thread: private memory with the octets of the file takes the
  /// place of the mapping, or zeroes if `file` is negative.
  void replace_in_child(int file) noexcept VB_UNCHECKED_LOCKING;

 private:
  [[nodiscard]] bool grow(std::size_t end) noexcept;
  [[nodiscard]] bool permit(std::size_t end) noexcept;

  std::byte* begin_ = nullptr;
  std::size_t octets_ = 0;
  Mutex mutex_;  // while accessible_ grows
  std::atomic<std::size_t> accessible_{0};
};

}  // namespace verbatim::host
