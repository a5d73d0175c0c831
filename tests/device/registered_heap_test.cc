// SPDX-License-Identifier: Apache-2.0
// A program registers its whole heap, as programs do whose allocator serves registered memory. So
// objects of the library are in memory that moves, while threads of the library use them.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "in_process.h"
#include "two_ends.h"

namespace verbatim::testing {
namespace {

constexpr std::uint32_t kRounds = 12;
constexpr std::size_t kGrowth = std::size_t{8} << 20;

struct Notes {
  EndNotes mover;
  EndNotes peer;
  std::atomic<bool> is_over{false};
  std::atomic<bool> has_failed{false};
  std::atomic<std::uint64_t> done{0};   // requests
  std::atomic<std::uint64_t> moved{0};  // mappings of the arena in the heap

  template <typename Condition>
  [[nodiscard]] bool await(Condition&& condition) const {
    return testing::await([&] { return condition() || has_failed; }) && !has_failed;
  }
};

struct Heap {
  unsigned long begin = 0;
  unsigned long end = 0;
  [[nodiscard]] std::size_t octets() const { return end - begin; }
  [[nodiscard]] void* data() const { return reinterpret_cast<void*>(begin); }
};

/// From the heap's first page to its last; parts of it may have moved.
Heap heap_now() {
  static Heap heap;
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  char line[512];
  while (heap.begin == 0 && maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
    if (std::strstr(line, "[heap]") != nullptr) (void)std::sscanf(line, "%lx-", &heap.begin);
  }
  if (maps != nullptr) std::fclose(maps);
  heap.end = reinterpret_cast<unsigned long>(::sbrk(0)) & ~4095UL;
  return heap;
}

std::uint64_t count_moved(const Heap& heap) {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  std::uint64_t count = 0;
  char line[512];
  while (maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long begin = 0;
    const bool is_read = std::sscanf(line, "%lx-", &begin) == 1;
    const bool is_moved = std::strstr(line, "memfd:verbatim-regions") != nullptr;
    count += is_read && is_moved && begin >= heap.begin && begin < heap.end ? 1 : 0;
  }
  if (maps != nullptr) std::fclose(maps);
  return count;
}

/// Sends until the other end has done its rounds.
int send(Notes& notes) {
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 1;
  end.tell(notes.peer, 1);
  if (!notes.await([&] { return notes.mover.ready == 1; })) return 2;
  if (!end.connect(end.qp, notes.mover.number, {.timeout = 14})) return 3;
  while (!notes.is_over && !notes.has_failed) {
    const ibv_wr_opcode what = notes.done % 2 == 0 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    if (const int status = end.run(what, notes.mover, 4096); status != IBV_WC_SUCCESS) {
      std::printf("status %d after %lu\n", status, static_cast<unsigned long>(notes.done));
      return 4;
    }
    ++notes.done;
  }
  return 0;
}

int grow(Notes& notes) {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_TOP_PAD, 0);
  (void)heap_now();
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 1;
  end.tell(notes.mover, 1);
  if (!notes.await([&] { return notes.peer.ready == 1; })) return 2;
  if (!end.connect(end.qp, notes.peer.number, {.timeout = 14})) return 3;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const std::uint64_t before = notes.done;
    char* const more = static_cast<char*>(std::malloc(kGrowth));
    std::memset(more, static_cast<int>(round), kGrowth);
    const Heap heap = heap_now();
    ibv_mr* const mr = ibv_reg_mr(end.pd, heap.data(), heap.octets(), End::kAllAccess);
    if (mr == nullptr) return 4;
    for (std::size_t i = 0; i < kGrowth; i += 512) {
      if (more[i] != static_cast<char>(round)) return 5;
    }
    if (ibv_dereg_mr(mr) != 0) return 6;
    if (!notes.await([&] { return notes.done > before; })) return 7;
  }
  notes.moved = count_moved(heap_now());
  notes.is_over = true;
  return 0;
}

TEST(RegisteredHeap, MayContainObjectsOfTheLibrary) {
  Notes& notes = *share_with_children<Notes>();
  const pid_t sender = start_process(notes.has_failed, [&] { return send(notes); });
  const pid_t grower = start_process(notes.has_failed, [&] { return grow(notes); });
  EXPECT_EQ(exit_status_of(grower), 0);
  EXPECT_EQ(exit_status_of(sender), 0);
  if (notes.moved == 0 && !HasFailure()) GTEST_SKIP() << "nothing moves here";
}

}  // namespace
}  // namespace verbatim::testing
