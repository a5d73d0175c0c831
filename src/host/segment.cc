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

namespace verbatim::host {

namespace {

constexpr std::size_t kSmallestBlock = 64;                // a cache line, and the alignment
constexpr std::size_t kOctetsWorthPunching = 256 * 1024;  // above, pages go back to the system
constexpr std::size_t kSmallOctets = 4096;                // below, blocks are carved in runs
constexpr std::size_t kRunOctets = 16 * 1024;
constexpr std::uint64_t kNoNext = ~std::uint64_t{0};

/// Zeroes a block. A large one loses its pages instead, and reads as zeroes from then on.
void clear(std::span<std::byte> block) noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t head = (page - reinterpret_cast<std::uintptr_t>(block.data()) % page) % page;
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

/// A file longer than the limit would cost the process a SIGXFSZ, so it is asked first.
bool exceeds_file_limit(std::size_t octets) noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         octets > limit.rlim_cur;
}

}  // namespace

Segment::~Segment() {
  if (base_ != nullptr) ::munmap(base_, size_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status Segment::open(std::size_t octets) noexcept {
  if (octets == 0) return Errc::kInvalidArgument;
  if (descriptor_ >= 0) return Errc::kBusy;
  if (exceeds_file_limit(octets)) return Errc::kNoMemory;
  const int descriptor = ::memfd_create("verbatim", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return Errc::kNoMemory;
  void* mapping = MAP_FAILED;
  if (::ftruncate(descriptor, static_cast<off_t>(octets)) == 0 &&
      ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK) == 0) {
    mapping =
        ::mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  }
  if (mapping == MAP_FAILED) {
    ::close(descriptor);
    return Errc::kNoMemory;
  }
  base_ = static_cast<std::byte*>(mapping);
  size_ = octets;
  used_ = 0;
  descriptor_ = descriptor;
  return Ok{};
}

void Segment::privatize() noexcept {
  if (base_ == nullptr) return;
  ::mmap(base_, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, descriptor_,
         0);
}

std::size_t Segment::class_of(std::size_t octets) noexcept {
  if (octets <= kSmallestBlock) return std::bit_width(kSmallestBlock) - 1;
  return static_cast<std::size_t>(std::bit_width(octets - 1));
}

std::span<std::byte> Segment::take(std::size_t octets) noexcept {
  const std::size_t order = class_of(octets);
  if (octets == 0 || order >= kClassCount) return {};
  const std::size_t block_octets = std::size_t{1} << order;
  std::byte* block = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (free_[order] == nullptr) {
      if (block_octets > size_ - used_) return {};
      block = carve(block_octets);
      // Small ones come together, so that those of one kind share pages: a peer that visits many
      // queue pairs in turn needs fewer of them.
      const std::size_t run = block_octets < kSmallOctets ? kRunOctets : block_octets;
      const std::size_t end = std::min(used_ + run - block_octets, size_);
      while (used_ + block_octets <= end) put(order, carve(block_octets));
      return {block, octets};
    }
    block = free_[order];
    std::uint64_t next = kNoNext;
    std::memcpy(&next, block, sizeof next);
    // A peer that still maps the block may have written there: then the rest of the list is lost,
    // and nothing else is.
    const bool names_a_block = next < used_ && next % kSmallestBlock == 0;
    free_[order] = names_a_block ? base_ + next : nullptr;
  }
  clear({block, octets});
  return {block, octets};
}

void Segment::give_back(std::span<std::byte> block) noexcept {
  if (block.empty()) return;
  const std::size_t order = class_of(block.size());
  VB_ASSERT(order < kClassCount && block.data() >= base_ && offset_of(block.data()) < size_ &&
            offset_of(block.data()) % kSmallestBlock == 0);
  if (block.size() >= kOctetsWorthPunching) clear(block);
  const std::lock_guard lock(mutex_);
  put(order, block.data());
}

std::byte* Segment::carve(std::size_t octets) noexcept {
  std::byte* const block = base_ + used_;
  used_ += octets;
  return block;
}

void Segment::put(std::size_t order, std::byte* block) noexcept {
  const std::uint64_t next = free_[order] != nullptr ? offset_of(free_[order]) : kNoNext;
  std::memcpy(block, &next, sizeof next);
  free_[order] = block;
}

}  // namespace verbatim::host
