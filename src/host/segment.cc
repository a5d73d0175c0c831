// SPDX-License-Identifier: Apache-2.0
#include "host/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.h"
#include "base/pointer.h"
#include "host/huge_pages.h"

namespace verbatim::host {

namespace {

constexpr std::size_t kSmallestBlock = 64;                // a cache line, and the alignment
constexpr std::size_t kOctetsWorthPunching = 256 * 1024;  // larger: pages go back to the system
constexpr std::size_t kSmallOctets = 4096;                // smaller: several are made at once
constexpr std::size_t kRunOctets = 16 * 1024;
constexpr std::uint64_t kNoNext = ~std::uint64_t{0};

/// Zeroes a block. A large one gives its pages back instead, and reads as zeroes from then on.
void clear(std::span<std::byte> block) noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t head = (page - numeric_address(block.data()) % page) % page;
  if (block.size() >= kOctetsWorthPunching && block.size() > head) {
    const std::size_t inside = (block.size() - head) / page * page;
    if (::madvise(block.data() + head, inside, MADV_REMOVE) == 0) {
      std::memset(block.data(), 0, head);
      std::memset(block.data() + head + inside, 0, block.size() - head - inside);
      return;
    }
  }
  std::memset(block.data(), 0, block.size());
}

/// A file longer than the limit would cause SIGXFSZ, so the limit is checked first.
bool exceeds_file_limit(std::size_t octets) noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         octets > limit.rlim_cur;
}

}  // namespace

Segment::~Segment() { mapping_.unmap(); }

Status Segment::open(std::size_t octets) noexcept {
  if (octets == 0) return Errc::kInvalidArgument;
  if (descriptor_.is_open()) return Errc::kBusy;
  if (exceeds_file_limit(octets)) return Errc::kNoMemory;
  const int descriptor = ::memfd_create("verbatim", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return Errc::kNoMemory;
  const bool is_mapped = ::ftruncate(descriptor, static_cast<off_t>(octets)) == 0 &&
                         ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK) == 0 &&
                         mapping_.map(descriptor, octets);
  if (!is_mapped) {
    ::close(descriptor);
    return Errc::kNoMemory;
  }
  base_ = mapping_.begin();
  size_ = octets;
  used_ = gathered_ = dense_from_ = 0;
  descriptor_ = OwnDescriptor(descriptor);
  return Ok{};
}

void Segment::privatize() noexcept {
  if (base_ == nullptr) return;
  if (descriptor_.is_still_own()) return mapping_.replace_in_child(descriptor_.number());
  // The program has closed the file, so the octets are copied.
  void* copy = ::mmap(nullptr, used_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy != MAP_FAILED) std::memcpy(copy, base_, used_);
  mapping_.replace_in_child(-1);
  if (copy == MAP_FAILED) return;
  std::memcpy(base_, copy, used_);
  ::munmap(copy, used_);
}

Segment::SizeClass Segment::class_of(std::size_t octets) noexcept {
  if (octets <= kSmallestBlock) return {.index = 0, .octets = kSmallestBlock};
  const auto order = static_cast<std::size_t>(std::bit_width(octets - 1));
  const std::size_t below = std::size_t{1} << (order - 1);  // the next lower power of two
  const std::size_t step = std::max(kSmallestBlock, below / kSteps);
  const std::size_t steps = (octets - below + step - 1) / step;
  return {.index = order * kSteps + steps, .octets = below + steps * step};
}

std::span<std::byte> Segment::take(std::size_t octets) noexcept {
  const auto [index, block_octets] = class_of(octets);
  if (octets == 0 || index >= kClassCount) return {};
  std::byte* block = nullptr;
  {
    const LockGuard lock(mutex_);
    if (free_[index] == nullptr) {
      if (block_octets > size_ - used_) return {};
      // Small blocks of one size are made together, so that they share pages: a peer that visits
      // many queue pairs in turn needs fewer pages.
      const std::size_t run = block_octets < kSmallOctets ? kRunOctets : block_octets;
      const std::size_t end = std::min(used_ + run, size_);
      if (!mapping_.open_up_to(end)) return {};
      block = carve(block_octets);
      while (used_ + block_octets <= end) put(index, carve(block_octets));
      return {block, octets};
    }
    block = free_[index];
    std::uint64_t next = kNoNext;
    std::memcpy(&next, block, sizeof next);
    // A peer that still maps the block may have written to it. Then the rest of the list is lost,
    // and nothing else.
    const bool names_a_block = next < used_ && next % kSmallestBlock == 0;
    free_[index] = names_a_block ? base_ + next : nullptr;
  }
  clear({block, octets});
  return {block, octets};
}

void Segment::give_back(std::span<std::byte> block) noexcept {
  if (block.empty()) return;
  const std::size_t index = class_of(block.size()).index;
  VB_ASSERT(index < kClassCount && block.data() >= base_ && offset_of(block.data()) < size_ &&
            offset_of(block.data()) % kSmallestBlock == 0);
  if (block.size() >= kOctetsWorthPunching) clear(block);
  const LockGuard lock(mutex_);
  put(index, block.data());
}

std::byte* Segment::carve(std::size_t octets) noexcept {
  std::byte* const block = base_ + used_;
  used_ += octets;
  if (octets >= kOctetsWorthPunching) dense_from_ = used_;
  for (; gathered_ + kHugePageOctets <= used_; gathered_ += kHugePageOctets) {
    if (gathered_ >= dense_from_) (void)gather_pages(base_ + gathered_);
  }
  return block;
}

void Segment::put(std::size_t index, std::byte* block) noexcept {
  const std::uint64_t next = free_[index] != nullptr ? offset_of(free_[index]) : kNoNext;
  std::memcpy(block, &next, sizeof next);
  free_[index] = block;
}

}  // namespace verbatim::host
