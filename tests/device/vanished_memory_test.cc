// SPDX-License-Identifier: Apache-2.0
// Memory that its owner has unmapped while it is registered, at either end of a connection between
// two processes: both ends get the right errors, no process crashes, and later requests work.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <string>
#include <vector>

#include "two_ends.h"

namespace verbatim::testing {
namespace {

/// How peers reach memory on the direct path; it makes no difference for packets.
enum class Reach : std::uint8_t {
  kMapped,   // both processes map it
  kByCall,   // process_vm_readv(2) and its like
  kByOwner,  // its owner does the work
};

struct Case {
  ibv_wr_opcode opcode;
  std::uint32_t octets;
  bool is_targets;  // the memory that vanishes; else the initiator's
};

constexpr std::uint32_t kLargest = 1 << 20;
constexpr unsigned kInitiator = 0;
constexpr unsigned kTarget = 1;
constexpr std::uint64_t kReceiveId = 7;
constexpr int kNothing = -1;

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const bool is_targets : {false, true}) {
    for (const auto opcode : {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ}) {
      for (const std::uint32_t octets : {8U, 64U * 1024, kLargest}) {
        cases.push_back({.opcode = opcode, .octets = octets, .is_targets = is_targets});
      }
    }
  }
  return cases;
}
constexpr std::size_t kCaseCount = 18;

bool goes_through_packets() {
  const char* path = std::getenv("VERBATIM_PATH");
  return path != nullptr && std::strcmp(path, "packet") == 0;
}

/// What the processes tell each other, and the test.
struct Notes {
  EndNotes ends[2];
  std::atomic<std::uint32_t> steps[2];
  int statuses[kCaseCount][2];  // of the initiator's request and the target's receive, or kNothing
  std::uint32_t cases_done[2] = {0, 0};
};

/// Pages of a process, registered.
struct Pages {
  std::byte* at = nullptr;
  ibv_mr* mr = nullptr;

  /// At an address far below those that the system chooses, so that no other mapping comes there.
  bool take_at(std::uintptr_t address, ibv_pd* pd) {
    void* mapped = ::mmap(std::bit_cast<void*>(address), kLargest, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (std::bit_cast<std::uintptr_t>(mapped) != address) return false;
    at = static_cast<std::byte*>(mapped);
    std::memset(at, 0x11, kLargest);
    mr = ibv_reg_mr(pd, at, kLargest, End::kAllAccess);
    return mr != nullptr;
  }
  bool vanish() const { return ::munmap(at, kLargest) == 0; }
  [[nodiscard]] ibv_sge sge(std::uint32_t octets) const {
    return {.addr = std::bit_cast<std::uintptr_t>(at), .length = octets, .lkey = mr->lkey};
  }
};

/// One of the two processes.
class Party {
 public:
  Party(Notes& notes, unsigned self) : notes_(notes), self_(self) {}

  bool run_all() {
    if (!end_.open() || !good_.take_at(0x5000'0000, end_.pd)) return false;
    std::uint32_t index = 0;
    for (const Case& each : all_cases()) {
      if (!run(each, notes_.statuses[index])) return false;
      notes_.cases_done[self_] = ++index;
    }
    return true;
  }

 private:
  /// Waits until both processes have come here.
  bool meet() {
    const std::uint32_t step = ++notes_.steps[self_];
    return await([&] { return notes_.steps[1 - self_] >= step; });
  }
  /// Connects a queue pair of this process with one of the other; the other may use `pages`.
  bool connect(const Pages& pages) {
    if (!end_.make_qp(&end_.qp)) return false;
    notes_.ends[self_].number = end_.qp->qp_num;
    notes_.ends[self_].rkey = pages.mr->rkey;
    notes_.ends[self_].address = std::bit_cast<std::uintptr_t>(pages.at);
    return meet() && end_.connect(end_.qp, notes_.ends[1 - self_].number, {}) && meet();
  }
  /// Done by both, or by none.
  bool disconnect() { return meet() && ibv_destroy_qp(end_.qp) == 0; }

  bool run(const Case& what, int (&statuses)[2]) {
    const bool is_ours = what.is_targets == (self_ == kTarget);
    Pages vanishing;
    if (is_ours && !vanishing.take_at(0x4000'0000, end_.pd)) return false;
    const Pages& pages = is_ours ? vanishing : good_;
    if (!connect(pages)) return false;
    if (self_ == kTarget) {
      const Pages& into = what.opcode == IBV_WR_SEND ? pages : good_;
      if (!end_.receive(end_.qp, kReceiveId, into.sge(kLargest))) return false;
    }
    if (is_ours && !vanishing.vanish()) return false;
    if (!meet()) return false;
    if (self_ == kInitiator) {
      if (!End::post(end_.qp, 0, what.opcode, pages.sge(what.octets), notes_.ends[kTarget])) {
        return false;
      }
      ibv_wc wc{};
      if (!end_.collect(wc)) return false;
      statuses[kInitiator] = wc.status;
    }
    if (!meet()) return false;
    if (self_ == kTarget) statuses[kTarget] = status_of_receive(what, statuses[kInitiator]);
    return disconnect() && (!is_ours || ibv_dereg_mr(vanishing.mr) == 0) && exchange();
  }
  /// The result of the target's receive; waits for the completion if one is due.
  int status_of_receive(const Case& what, int status_of_request) {
    const bool is_due =
        status_of_request == IBV_WC_SUCCESS ? what.opcode == IBV_WR_SEND : what.is_targets;
    ibv_wc wc{};
    const bool is_there = is_due ? end_.collect(wc) : ibv_poll_cq(end_.cq, 1, &wc) == 1;
    return is_there ? static_cast<int>(wc.status) : kNothing;
  }

  /// Everything works between two new queue pairs.
  bool exchange() {
    constexpr std::uint32_t kOctets = 100'000;
    if (!connect(good_)) return false;
    if (self_ == kTarget && !end_.receive(end_.qp, kReceiveId, good_.sge(kOctets))) return false;
    if (!meet()) return false;
    if (self_ == kInitiator) {
      for (const auto opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND}) {
        const auto value = std::byte(static_cast<unsigned>(opcode) + ++count_);
        if (opcode != IBV_WR_RDMA_READ) std::memset(good_.at, static_cast<int>(value), kOctets);
        ibv_wc wc{};
        if (!End::post(end_.qp, 0, opcode, good_.sge(kOctets), notes_.ends[kTarget]) ||
            !end_.collect(wc) || wc.status != IBV_WC_SUCCESS) {
          return false;
        }
      }
    } else {
      ibv_wc wc{};
      if (!end_.collect(wc) || wc.status != IBV_WC_SUCCESS || wc.byte_len != kOctets) return false;
    }
    return disconnect();
  }

  Notes& notes_;
  const unsigned self_;
  End end_;
  Pages good_;
  unsigned count_ = 0;
};

class VanishedMemory : public ::testing::TestWithParam<Reach> {
 protected:
  void SetUp() override {
    if (goes_through_packets()) {
      if (GetParam() != Reach::kMapped) GTEST_SKIP() << "packets do not use the reach";
      return;
    }
    ::setenv("VERBATIM_PATH", "direct", 1);
    ::setenv("VERBATIM_REHOME", GetParam() == Reach::kMapped ? "1" : "0", 1);
    ::setenv("VERBATIM_CMA", GetParam() == Reach::kByOwner ? "0" : "1", 1);
  }
  void TearDown() override { ::munmap(&notes_, sizeof notes_); }

  void run() {
    std::array<pid_t, 2> pids{};
    for (unsigned self = 0; self < 2; ++self) {
      std::fflush(nullptr);
      pids[self] = ::fork();
      ASSERT_GE(pids[self], 0);
      if (pids[self] == 0) ::_exit(Party(notes_, self).run_all() ? 0 : 1);
    }
    for (const pid_t pid : pids) {
      int status = 0;
      ASSERT_EQ(::waitpid(pid, &status, 0), pid);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << status << " after " << notes_.cases_done[pid == pids[1]] << " cases";
    }
  }

  Notes& notes_ = *share_with_children<Notes>();
};

std::string text_of(int status) {
  return status == kNothing ? "nothing" : ibv_wc_status_str(static_cast<ibv_wc_status>(status));
}

std::string text_of(const Case& of) {
  const char* name = of.opcode == IBV_WR_RDMA_WRITE ? "WRITE"
                     : of.opcode == IBV_WR_SEND     ? "SEND"
                                                    : "READ";
  return std::string(name) + " of " + std::to_string(of.octets) + " octets, memory of the " +
         (of.is_targets ? "target" : "initiator");
}

TEST_P(VanishedMemory, IsAnErrorOfTheRequestsThatUseIt) {
  run();
  const auto cases = all_cases();
  ASSERT_EQ(cases.size(), kCaseCount);
  for (std::size_t i = 0; i < cases.size() && i < notes_.cases_done[kTarget]; ++i) {
    const Case& each = cases[i];
    const int request = notes_.statuses[i][kInitiator];
    const int receive = notes_.statuses[i][kTarget];
    SCOPED_TRACE(text_of(each) + ": " + text_of(request) + ", the receive: " + text_of(receive));
    const bool is_send = each.opcode == IBV_WR_SEND;
    if (!each.is_targets) {
      EXPECT_EQ(request, IBV_WC_LOC_PROT_ERR);
      EXPECT_EQ(receive, kNothing) << "nothing has happened there";
    } else if (request == IBV_WC_SUCCESS) {
      // The pages still exist for a peer that maps them, as with hardware.
      EXPECT_TRUE(GetParam() == Reach::kMapped && !goes_through_packets());
      EXPECT_EQ(receive, is_send ? int{IBV_WC_SUCCESS} : kNothing);
    } else {
      // A key whose memory was unmapped does not work any more; where the kernel does not tell of
      // that, the access faults.
      const bool is_closed = request == IBV_WC_REM_ACCESS_ERR && !is_send;
      EXPECT_TRUE(is_closed || request == IBV_WC_REM_OP_ERR);
      EXPECT_EQ(receive, is_send ? IBV_WC_LOC_PROT_ERR : IBV_WC_WR_FLUSH_ERR);
    }
  }
}

std::string name_of(const ::testing::TestParamInfo<Reach>& of) {
  constexpr std::array kNames = {"Mapped", "ByCall", "ByOwner"};
  return kNames[static_cast<unsigned>(of.param)];
}
INSTANTIATE_TEST_SUITE_P(Ways, VanishedMemory,
                         ::testing::Values(Reach::kMapped, Reach::kByCall, Reach::kByOwner),
                         name_of);

}  // namespace
}  // namespace verbatim::testing
