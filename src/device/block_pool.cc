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
    Chunk* const fresh = map_chunk();
    if (fresh == nullptr) return nullptr;
    ++chunk_count_;
    link(fresh);
  }
  Chunk* const chunk = open_;
  void* block = chunk->given_back;
  if (block != nullptr) {
    chunk->given_back = chunk->given_back->next;
  } else {
    block = pointer_as<std::byte>(chunk) + kLine + chunk->touched * stride_;
    ++chunk->touched;
    // Small pages become one huge page now that most of them are in use.
    if (chunk->touched == blocks_per_chunk()) {
      (void)host::gather_pages(pointer_as<std::byte>(chunk));
    }
  }
  if (++chunk->taken == blocks_per_chunk()) unlink(chunk);
  return block;
}

void BlockPool::give_back(void* block) noexcept {
  if (block == nullptr) return;
  const Held held;
  auto* const chunk = pointer_as<Chunk>(numeric_address(block) & ~(kChunkOctets - 1));
  if (chunk->taken == blocks_per_chunk()) link(chunk);
  chunk->given_back = new (block) FreeBlock{.next = chunk->given_back};
  if (--chunk->taken > 0 || chunk_count_ == 1) return;  // the last chunk stays for the next object
  unlink(chunk);
  (void)munmap(chunk, kChunkOctets);
  --chunk_count_;
}

std::size_t BlockPool::chunk_count() noexcept {
  const Held held;
  return chunk_count_;
}

BlockPool::Chunk* BlockPool::map_chunk() noexcept {
  std::byte* const room = host::map_aligned(kChunkOctets, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  return room == nullptr ? nullptr : new (room) Chunk;
}

void BlockPool::link(Chunk* chunk) noexcept {
  chunk->previous = nullptr;
  chunk->next = open_;
  if (open_ != nullptr) open_->previous = chunk;
  open_ = chunk;
}

void BlockPool::unlink(Chunk* chunk) noexcept {
  if (chunk->previous != nullptr) chunk->previous->next = chunk->next;
  if (chunk->next != nullptr) chunk->next->previous = chunk->previous;
  if (open_ == chunk) open_ = chunk->next;
}

}  // namespace verbatim::device
