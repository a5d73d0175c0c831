// SPDX-License-Identifier: Apache-2.0
#include "host/segment_mapping.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace verbatim::host {

bool SegmentMapping::map(int file, std::size_t octets) noexcept {
  begin_ = map_aligned(octets, MAP_SHARED, file, PROT_NONE);
  if (begin_ == nullptr) return false;
  octets_ = octets;
  accessible_.store(0, std::memory_order_relaxed);
  (void)::madvise(begin_, octets_, MADV_DONTDUMP);
  return true;
}

void SegmentMapping::unmap() noexcept {
  if (begin_ != nullptr) ::munmap(begin_, octets_);
  begin_ = nullptr;
  octets_ = 0;
}

bool SegmentMapping::grow(std::size_t end) noexcept {
  if (end > octets_) return false;
  const LockGuard lock(mutex_);
  if (end <= accessible_.load(std::memory_order_relaxed)) return true;
  const std::size_t whole = std::min((end + kStep - 1) / kStep * kStep, octets_);
  if (!permit(whole)) return false;
  accessible_.store(whole, std::memory_order_release);  // pairs with open_up_to()
  return true;
}

bool SegmentMapping::permit(std::size_t end) noexcept {
  return ::mprotect(begin_, end, PROT_READ | PROT_WRITE) == 0;
}

void SegmentMapping::replace_in_child(int file) noexcept {
  new (&mutex_) Mutex;  // another thread of the parent may have had it
  constexpr int kInPlace = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
  const int kind = file >= 0 ? kInPlace : kInPlace | MAP_ANONYMOUS;
  (void)::mmap(begin_, octets_, PROT_NONE, kind, file, 0);
  (void)::madvise(begin_, octets_, MADV_DONTDUMP);
  (void)permit(accessible_.load(std::memory_order_relaxed));
}

}  // namespace verbatim::host
