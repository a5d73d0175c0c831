// SPDX-License-Identifier: Apache-2.0
#include "device/block_pool.h"

#include <sys/mman.h>

#include <cstdint>
#include <mutex>
#include <new>

#include "base/pointer.h"
#include "device/process.h"
#include "host/huge_pages.h"
#include "rehome/signals_blocked.h"

namespace verbatim::device {
namespace {

/// One lock for all pools, because few objects are created at a time. A fork takes it.
constinit std::mutex g_pools;

/// A fork in the middle of a call waits for this lock, too.
class Held {
 private:
  rehome::SignalsBlocked quiet_;
  std::lock_guard<std::mutex> lock_{g_pools};
};

const TakesPartInForks kInForks({.rank = ForkRank::kPools,
                                 .prepare = [] { g_pools.lock(); },
                                 .parent = [] { g_pools.unlock(); },
                                 .child = [] { g_pools.unlock(); },
                                 .is_quiet = true});

}  // namespace

void* BlockPool::take() noexcept {
  const Held held;
  if (open_ == nullptr) {
    Slab* const fresh = map_slab();
    if (fresh == nullptr) return nullptr;
    ++slab_count_;
    link(fresh);
  }
  Slab* const slab = open_;
  void* block = slab->given_back;
  if (block != nullptr) {
    slab->given_back = slab->given_back->next;
  } else {
    block = pointer_as<std::byte>(slab) + kLine + slab->touched * stride_;
    ++slab->touched;
    // Small pages become one huge page now that most of them are in use.
    if (slab->touched == blocks_per_slab()) {
      (void)host::gather_pages(pointer_as<std::byte>(slab));
    }
  }
  if (++slab->taken == blocks_per_slab()) unlink(slab);
  return block;
}

void BlockPool::give_back(void* block) noexcept {
  if (block == nullptr) return;
  const Held held;
  auto* const slab = pointer_as<Slab>(numeric_address(block) & ~(kSlabOctets - 1));
  if (slab->taken == blocks_per_slab()) link(slab);
  slab->given_back = new (block) FreeBlock{.next = slab->given_back};
  if (--slab->taken > 0 || slab_count_ == 1) return;  // the last slab stays for the next object
  unlink(slab);
  (void)munmap(slab, kSlabOctets);
  --slab_count_;
}

std::size_t BlockPool::slab_count() noexcept {
  const Held held;
  return slab_count_;
}

BlockPool::Slab* BlockPool::map_slab() noexcept {
  std::byte* const room = host::map_aligned(kSlabOctets, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  return room == nullptr ? nullptr : new (room) Slab;
}

void BlockPool::link(Slab* slab) noexcept {
  slab->previous = nullptr;
  slab->next = open_;
  if (open_ != nullptr) open_->previous = slab;
  open_ = slab;
}

void BlockPool::unlink(Slab* slab) noexcept {
  if (slab->previous != nullptr) slab->previous->next = slab->next;
  if (slab->next != nullptr) slab->next->previous = slab->previous;
  if (open_ == slab) open_ = slab->next;
}

}  // namespace verbatim::device
