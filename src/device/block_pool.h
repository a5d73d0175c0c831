// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "host/huge_pages.h"

namespace verbatim::device {

/// Memory for objects of one size of which a program may have thousands and which it uses in turn.
/// With a thousand queue pairs in scattered pages, misses of the page table cost as much time as
/// the objects themselves. So blocks lie close together in slabs of two megabytes, and a slab
/// that has been filled becomes one huge page, if the system has one. A few objects cost a few
/// pages.
///
/// Thread: any.
class BlockPool {
 public:
  explicit constexpr BlockPool(std::size_t octets) noexcept
      : stride_((octets + kLine - 1) & ~(kLine - 1)) {}
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// A block, at a multiple of 64; null when there is no memory.
  [[nodiscard]] void* take() noexcept;
  void give_back(void* block) noexcept;

  [[nodiscard]] std::size_t blocks_per_slab() const noexcept {
    return (kSlabOctets - kLine) / stride_;
  }
  [[nodiscard]] std::size_t slab_count() noexcept;

 private:
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kSlabOctets = host::kHugePageOctets;
  struct FreeBlock {
    FreeBlock* next = nullptr;
  };
  /// At the beginning of every slab, which lies at a multiple of its size.
  struct Slab {
    Slab* next = nullptr;
    Slab* previous = nullptr;
    FreeBlock* given_back = nullptr;
    std::size_t touched = 0;  // blocks that were ever taken: the first ones of the slab
    std::size_t taken = 0;    // blocks that are in use
  };
  static_assert(sizeof(Slab) <= kLine);

  [[nodiscard]] static Slab* map_slab() noexcept;
  void link(Slab* slab) noexcept;
  void unlink(Slab* slab) noexcept;

  // One lock of all pools guards the following members and the contents of the slabs.
  std::size_t stride_;
  Slab* open_ = nullptr;  // slabs with free blocks
  std::size_t slab_count_ = 0;
};

/// Base of a class whose objects come from a pool of their own. With the address sanitizer they
/// come from the heap, which the sanitizer checks.
template <typename Object>
class Pooled {
 public:
#if !VB_ADDRESS_SANITIZER
  static void* operator new(std::size_t) noexcept { return pool().take(); }
  static void operator delete(void* object) noexcept { pool().give_back(object); }
#endif

 private:
  static BlockPool& pool() noexcept {
    static constinit BlockPool pool(sizeof(Object));  // has no destructor, so it is never gone
    return pool;
  }
};

}  // namespace verbatim::device
