// SPDX-License-Identifier: Apache-2.0
// A request executes by system calls, on a thread of the library, while its own memory moves. A
// system call into a page that is missing for a moment fails with EFAULT; the request must not.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <thread>

#include "in_process.h"
#include "two_ends.h"

namespace verbatim::testing {
namespace {

constexpr std::uint32_t kOctets = 16U << 20;
constexpr std::uint32_t kRounds = 4;

struct Notes {
  EndNotes mover;
  EndNotes peer;
  EndNotes far;  // the peer's large region
  std::atomic<bool> is_over{false};
  std::atomic<bool> has_failed{false};
  std::atomic<std::uint32_t> moved{0};  // regions
  std::atomic<int> status{-1};          // of the first request that did not succeed

  template <typename Condition>
  [[nodiscard]] bool await(Condition&& condition) const {
    return testing::await([&] { return condition() || has_failed; }) && !has_failed;
  }
};

std::uint64_t pattern_of(std::uint64_t index, std::uint64_t round) {
  return (index + 1) * 0x9e37'79b9'7f4a'7c15U + round;
}

struct Memory {
  std::uint64_t* words = nullptr;
  static constexpr std::size_t kWords = kOctets / sizeof(std::uint64_t);

  Memory()
      : words(static_cast<std::uint64_t*>(::mmap(nullptr, kOctets, PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { ::munmap(words, kOctets); }
  void fill(std::uint64_t round) const {
    for (std::size_t i = 0; i < kWords; ++i) words[i] = pattern_of(i, round);
  }
  [[nodiscard]] bool has(std::uint64_t round) const {
    for (std::size_t i = 0; i < kWords; ++i) {
      if (words[i] != pattern_of(i, round)) return false;
    }
    return true;
  }
};

/// Lends memory that never moves, so requests reach it by system calls.
int lend(Notes& notes) {
  ::setenv("VERBATIM_REHOME", "0", 1);
  End end;
  const Memory memory;
  if (!end.open() || !end.make_qp(&end.qp)) return 1;
  ibv_mr* const mr = ibv_reg_mr(end.pd, memory.words, kOctets, End::kAllAccess);
  if (mr == nullptr) return 2;
  memory.fill(kRounds);
  notes.far.rkey = mr->rkey;
  notes.far.address = reinterpret_cast<std::uintptr_t>(memory.words);
  end.tell(notes.peer, 1);
  if (!notes.await([&] { return notes.mover.ready == 1; })) return 3;
  if (!end.connect(end.qp, notes.mover.number, {.timeout = 0})) return 4;
  notes.far.ready = 1;
  return notes.await([&] { return notes.is_over.load(); }) ? 0 : 5;
}

/// How many mappings of the arena lie in the memory.
bool has_moved(const Memory& memory) {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return false;
  bool found = false;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long begin = 0;
    if (std::sscanf(line, "%lx-", &begin) != 1) continue;
    const auto first = reinterpret_cast<std::uintptr_t>(memory.words);
    found |= begin >= first && begin < first + kOctets &&
             std::strstr(line, "memfd:verbatim-regions") != nullptr;
  }
  std::fclose(maps);
  return found;
}

/// One request with memory that moves meanwhile, because it is registered once more.
int move_under(const End& end, Notes& notes, ibv_wr_opcode opcode, std::uint64_t round) {
  const Memory memory;
  memory.fill(round);
  ibv_mr* first = nullptr;
  std::atomic<bool> ends{false};
  std::thread other([&] {
    while (!ends) ::usleep(100);
  });
  first = ibv_reg_mr(end.pd, memory.words, kOctets, End::kAllAccess);  // does not move
  ends = true;
  other.join();
  if (first == nullptr) return 10;
  const ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(memory.words),
                    .length = kOctets,
                    .lkey = first->lkey};
  if (!End::post(end.qp, round, opcode, sge, notes.far)) return 11;
  ibv_mr* const second = ibv_reg_mr(end.pd, memory.words, kOctets, End::kAllAccess);
  ibv_wc wc{};
  if (second == nullptr || !end.collect(wc)) return 12;
  notes.moved += has_moved(memory) ? 1 : 0;
  if (wc.status != IBV_WC_SUCCESS) {
    notes.status = wc.status;
    return 13;
  }
  const bool is_read = opcode == IBV_WR_RDMA_READ;
  if (is_read ? !memory.has(kRounds) : !memory.has(round)) return 14;
  if (!is_read) {  // what has arrived comes back
    memory.fill(0);
    if (!End::post(end.qp, round, IBV_WR_RDMA_READ, sge, notes.far) || !end.collect(wc)) return 15;
    if (wc.status != IBV_WC_SUCCESS || !memory.has(round)) return 16;
  }
  return ibv_dereg_mr(second) == 0 && ibv_dereg_mr(first) == 0 ? 0 : 17;
}

int move(Notes& notes) {
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 1;
  end.tell(notes.mover, 1);
  if (!notes.await([&] { return notes.peer.ready == 1; })) return 2;
  if (!end.connect(end.qp, notes.peer.number, {.timeout = 0})) return 3;
  if (!notes.await([&] { return notes.far.ready == 1; })) return 4;
  for (const auto opcode : {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE}) {
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      if (const int failed = move_under(end, notes, opcode, round); failed != 0) return failed;
    }
  }
  notes.is_over = true;
  return 0;
}

TEST(OwnMemory, MovesWhileARequestOfTheSameProcessUsesIt) {
  Notes& notes = *share_with_children<Notes>();
  const pid_t peer = start_process(notes.has_failed, [&] { return lend(notes); });
  const pid_t mover = start_process(notes.has_failed, [&] { return move(notes); });
  EXPECT_EQ(exit_status_of(mover), 0) << "completion status " << notes.status;
  EXPECT_EQ(exit_status_of(peer), 0);
  std::printf("%u of %u regions moved\n", notes.moved.load(), 2 * kRounds);
  if (notes.moved == 0 && !HasFailure()) GTEST_SKIP() << "nothing moves here";
}

}  // namespace
}  // namespace verbatim::testing
