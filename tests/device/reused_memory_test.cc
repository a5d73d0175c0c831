// SPDX-License-Identifier: Apache-2.0
// Memory that its owner unmaps or deregisters while peers write to it: when the call returns, no
// peer is in the middle of an access, and addresses that get other memory keep it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <thread>

#include "in_process.h"
#include "two_ends.h"

namespace verbatim::testing {
namespace {

constexpr std::size_t kOctets = std::size_t{16} << 20;
constexpr unsigned kRounds = 8;
constexpr unsigned kWriters = 4;
constexpr std::uint32_t kInFlight = 4;

struct Notes {
  EndNotes owner;             // `ready` is the round
  EndNotes writer[kWriters];  // likewise; `number` is that of its queue pair
  std::uint32_t owner_number[kWriters] = {};
  std::atomic<std::uint32_t> writes{0};  // that are done, of this round
  std::atomic<std::uint32_t> done{0};    // the round that the writer has ended
  std::atomic<bool> is_over{false};
};

std::byte* map_at(void* where, int more) {
  void* at =
      ::mmap(where, kOctets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | more, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

/// Memory of a writer, registered and full of what it writes.
struct Source {
  std::byte* at = nullptr;
  ibv_mr* mr = nullptr;

  bool make(ibv_pd* pd) {
    at = map_at(nullptr, 0);
    if (at == nullptr) return false;
    std::memset(at, 'P', kOctets);
    mr = ibv_reg_mr(pd, at, kOctets, End::kAllAccess);
    return mr != nullptr;
  }
  [[nodiscard]] ibv_sge sge() const {
    return {.addr = std::bit_cast<std::uintptr_t>(at), .length = kOctets, .lkey = mr->lkey};
  }
};

class ReusedMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("VERBATIM_PATH", "direct", 1);
    ::setenv("VERBATIM_REHOME", "0", 1);  // peers reach it by system calls
  }
  void TearDown() override { ::munmap(&notes_, sizeof notes_); }

  template <typename Body>
  pid_t start(Body&& body) {
    return start_process([&] { return body() ? 0 : 1; });
  }
  static void expect_success(pid_t pid, const char* who) {
    EXPECT_EQ(exit_status_of(pid), 0) << who;
  }

  Notes& notes_ = *share_with_children<Notes>();
};

// ---- Unmapping ----

/// Writes the whole memory again and again until a WRITE fails, in each round.
bool write_until_refused(Notes& notes) {
  End end;
  Source source;
  if (!end.open() || !source.make(end.pd)) return false;
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    if (!end.make_qp(&end.qp)) return false;
    notes.writer[0].number = end.qp->qp_num;
    notes.writer[0].ready = round;
    if (!await([&] { return notes.owner.ready == round; })) return false;
    if (!end.connect(end.qp, notes.owner.number, {})) return false;
    for (std::uint32_t i = 0; i < kInFlight; ++i) {
      if (!End::post(end.qp, 0, IBV_WR_RDMA_WRITE, source.sge(), notes.owner)) return false;
    }
    ibv_wc wc{};
    do {
      if (!end.collect(wc)) return false;
      ++notes.writes;
      if (wc.status == IBV_WC_SUCCESS &&
          !End::post(end.qp, 0, IBV_WR_RDMA_WRITE, source.sge(), notes.owner)) {
        return false;
      }
    } while (wc.status == IBV_WC_SUCCESS);
    if (ibv_destroy_qp(end.qp) != 0) return false;
    while (ibv_poll_cq(end.cq, 1, &wc) > 0) {
    }
    notes.done = round;
  }
  return true;
}

/// Unmaps the memory in the middle, and maps other memory there at once.
bool unmap_under_way(Notes& notes) {
  End end;
  if (!end.open()) return false;
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    std::byte* const at = map_at(nullptr, MAP_POPULATE);
    if (at == nullptr) return false;
    ibv_mr* const mr = ibv_reg_mr(end.pd, at, kOctets, End::kAllAccess);
    if (mr == nullptr || !end.make_qp(&end.qp)) return false;
    if (!await([&] { return notes.writer[0].ready == round; })) return false;
    notes.writes = 0;
    notes.owner.number = end.qp->qp_num;
    notes.owner.rkey = mr->rkey;
    notes.owner.address = std::bit_cast<std::uintptr_t>(at);
    if (!end.connect(end.qp, notes.writer[0].number, {})) return false;
    notes.owner.ready = round;
    if (!await([&] { return notes.writes >= 1; })) return false;
    // A WRITE is under way, at different places in different rounds.
    std::this_thread::sleep_for(std::chrono::microseconds(200 * round));
    if (::munmap(at, kOctets) != 0) return false;
    if (map_at(at, MAP_FIXED_NOREPLACE | MAP_POPULATE) != at) return false;
    if (!await([&] { return notes.done == round; })) return false;
    const auto strange =
        std::count_if(at, at + kOctets, [](std::byte b) { return b != std::byte{0}; });
    if (strange != 0) {
      std::fprintf(stderr, "round %u: the peer has written %td octets of new memory\n", round,
                   strange);
      return false;
    }
    if (ibv_destroy_qp(end.qp) != 0 || ibv_dereg_mr(mr) != 0) return false;
    ::munmap(at, kOctets);
  }
  return true;
}

TEST_F(ReusedMemory, IsNotWrittenByARequestThatWasUnderWay) {
  const pid_t owner = start([&] { return unmap_under_way(notes_); });
  const pid_t writer = start([&] { return write_until_refused(notes_); });
  expect_success(owner, "owner");
  expect_success(writer, "writer");
}

// ---- Deregistering ----

/// Writes the whole memory until the test is over.
bool keep_writing(Notes& notes, unsigned self) {
  End end;
  Source source;
  if (!end.open() || !source.make(end.pd) || !end.make_qp(&end.qp)) return false;
  notes.writer[self].number = end.qp->qp_num;
  notes.writer[self].ready = 1;
  if (!await([&] { return notes.owner.ready == 1; })) return false;
  if (!end.connect(end.qp, notes.owner_number[self], {})) return false;
  std::uint32_t in_flight = 0;
  while (!notes.is_over) {
    for (; in_flight < kInFlight; ++in_flight) {
      if (!End::post(end.qp, 0, IBV_WR_RDMA_WRITE, source.sge(), notes.owner)) return false;
    }
    ibv_wc wc{};
    if (!end.collect(wc) || wc.status != IBV_WC_SUCCESS) return false;
    --in_flight;
    ++notes.writes;
  }
  return true;
}

/// Deregisters another region of the same memory.
bool deregister_idle_region(Notes& notes) {
  End end;
  std::byte* const at = map_at(nullptr, MAP_POPULATE);
  if (!end.open() || at == nullptr) return false;
  ibv_mr* const busy = ibv_reg_mr(end.pd, at, kOctets, End::kAllAccess);
  std::array<ibv_mr*, 8> idle{};
  for (ibv_mr*& mr : idle) mr = ibv_reg_mr(end.pd, at, kOctets, End::kAllAccess);
  for (unsigned i = 0; i < kWriters; ++i) {
    if (!end.make_qp(&end.qp) || !await([&] { return notes.writer[i].ready == 1; })) return false;
    if (!end.connect(end.qp, notes.writer[i].number, {})) return false;
    notes.owner_number[i] = end.qp->qp_num;
  }
  notes.owner.rkey = busy->rkey;
  notes.owner.address = std::bit_cast<std::uintptr_t>(at);
  notes.owner.ready = 1;
  for (ibv_mr* mr : idle) {
    if (!await([&] { return notes.writes >= kWriters; })) return false;
    const std::uint32_t before = notes.writes;
    if (ibv_dereg_mr(mr) != 0) return false;
    // Each writer may have finished its WRITE, and some more while this thread waited for a
    // processor.
    const std::uint32_t meanwhile = notes.writes - before;
    if (meanwhile > 16 * kWriters) {
      std::fprintf(stderr, "%u writes of %zu octets while one region was deregistered\n", meanwhile,
                   kOctets);
      return false;
    }
  }
  notes.is_over = true;
  return true;
}

TEST_F(ReusedMemory, IsDeregisteredWhilePeersUseAnotherRegionOfIt) {
  std::array<pid_t, kWriters> writers{};
  const pid_t owner = start([&] {
    const bool done = deregister_idle_region(notes_);
    notes_.is_over = true;
    // The writers end first: their requests need this process.
    return await([&] { return notes_.done == kWriters; }) && done;
  });
  for (unsigned i = 0; i < kWriters; ++i) {
    writers[i] = start([&] {
      const bool done = keep_writing(notes_, i);
      ++notes_.done;
      return done;
    });
  }
  expect_success(owner, "owner");
  // A writer that had no processor for long may have been given up by the owner, and fails.
  for (const pid_t writer : writers) EXPECT_EQ(::waitpid(writer, nullptr, 0), writer);
}

}  // namespace
}  // namespace verbatim::testing
