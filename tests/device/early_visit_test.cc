// SPDX-License-Identifier: Apache-2.0
// A peer that is ready writes as soon as the owner of the memory takes requests. By then the memory
// has moved: while a page moves, part of a store that the kernel makes for a peer could be lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "in_process.h"
#include "two_ends.h"

namespace verbatim::testing {
namespace {

/// To move this much takes a while.
constexpr std::size_t kOctets = std::size_t{256} << 20;

struct Notes {
  EndNotes owner;
  EndNotes writer;
  std::uint64_t region = 0;  // its address
  std::atomic<bool> is_posted{false};
  std::atomic<std::uint64_t> moved_at_first{0};  // octets of the owner's region in the arena
  std::atomic<bool> is_over{false};
  std::atomic<bool> has_failed{false};

  template <typename Condition>
  [[nodiscard]] bool await(Condition&& condition) const {
    return testing::await([&] { return condition() || has_failed; }) && !has_failed;
  }
};

/// How many octets of a range a process has mapped from its arena.
std::uint64_t moved_octets(pid_t process, std::uint64_t address, std::uint64_t octets) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/maps", static_cast<int>(process));
  std::FILE* maps = std::fopen(path, "re");
  if (maps == nullptr) return 0;
  std::uint64_t sum = 0;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (std::strstr(line, "memfd:verbatim-regions") == nullptr) continue;
    if (std::sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
    const std::uint64_t from = std::max<std::uint64_t>(begin, address);
    const std::uint64_t to = std::min<std::uint64_t>(end, address + octets);
    if (from < to) sum += to - from;
  }
  std::fclose(maps);
  return sum;
}

/// Is ready before the owner, and looks at the owner's memory as soon as its first WRITE is done.
int write_at_once(Notes& notes, pid_t owner) {
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 1;
  end.tell(notes.writer, 1);
  if (!notes.await([&] { return notes.owner.ready == 1; })) return 2;
  if (!end.connect(end.qp, notes.owner.number, {.timeout = 0})) return 3;
  if (!End::post(end.qp, 0, IBV_WR_RDMA_WRITE, end.sge(0, 4096), notes.owner)) return 4;
  notes.is_posted = true;
  ibv_wc wc{};
  if (!end.collect(wc) || wc.status != IBV_WC_SUCCESS) return 5;
  notes.moved_at_first = moved_octets(owner, notes.region, kOctets);
  notes.is_over = true;
  return 0;
}

/// Returns how much of the memory is in the arena in the end.
std::uint64_t connect_late(Notes& notes) {
  End end;
  void* at = ::mmap(nullptr, kOctets, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (at == MAP_FAILED || !end.open() || !end.make_qp(&end.qp)) return 0;
  ibv_mr* const mr = ibv_reg_mr(end.pd, at, kOctets, End::kAllAccess);
  if (mr == nullptr) return 0;
  if (!notes.await([&] { return notes.writer.ready == 1; })) return 0;
  notes.owner.number = end.qp->qp_num;
  notes.owner.rkey = mr->rkey;
  notes.owner.address = reinterpret_cast<std::uintptr_t>(at) + kOctets - 4096;
  notes.region = reinterpret_cast<std::uintptr_t>(at);
  notes.owner.ready = 1;
  if (!notes.await([&] { return notes.is_posted.load(); })) return 0;
  if (!end.connect(end.qp, notes.writer.number, {})) return 0;
  if (!notes.await([&] { return notes.is_over.load(); })) return 0;
  return moved_octets(::getpid(), reinterpret_cast<std::uintptr_t>(at), kOctets);
}

TEST(EarlyVisit, FindsMemoryThatHasMoved) {
  Notes& notes = *share_with_children<Notes>();
  struct Result {
    std::atomic<std::uint64_t> moved{0};
  };
  Result& result = *share_with_children<Result>();
  const pid_t owner = start_process(notes.has_failed, [&] {
    result.moved = connect_late(notes);
    return notes.is_over ? 0 : 1;
  });
  const pid_t writer = start_process(notes.has_failed, [&] { return write_at_once(notes, owner); });
  EXPECT_EQ(exit_status_of(writer), 0);
  EXPECT_EQ(exit_status_of(owner), 0);
  if (result.moved == 0) GTEST_SKIP() << "nothing moves here";
  EXPECT_EQ(notes.moved_at_first, result.moved);
}

}  // namespace
}  // namespace verbatim::testing
