// SPDX-License-Identifier: Apache-2.0
// One-sided operations on one host work also when the target is stopped, unless the system forbids
// other processes to reach its memory.
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "two_ends.h"

namespace verbatim::testing {
namespace {

constexpr std::uint32_t kHalf = End::kOctets / 2;  // receives have the second one
constexpr std::uint32_t kRound = 1;
constexpr std::uint64_t kReceive = 7;
constexpr End::Timing kTiming{.timeout = 19};  // 2 s: a peer that is stopped is given time

/// What the two processes and the test tell each other.
struct Notes {
  EndNotes ends[2];
  std::atomic<bool> is_connected{false};
  std::atomic<bool> is_over{false};
  std::atomic<bool> stops{false};  // the target is to be
  std::atomic<bool> is_stopped{false};
};

/// How the initiator reaches the target's memory.
struct Means {
  const char* rehome = "1";      // VERBATIM_REHOME of both
  bool has_calls = true;         // false: the system refuses process_vm_readv(2) and its like
  const char* cma = "1";         // VERBATIM_CMA of the initiator
  bool atomics_need_it = false;  // the target, to run
  bool data_needs_it = false;
};

/// From now on this process may not reach into others, as in many containers.
bool forbid_calls() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_preadv, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwritev, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = std::size(code), .filter = code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

/// The target: connects, posts a receive, and does nothing until the end. Then it checks its
/// memory.
int be_target(Notes& notes, const Means& means) {
  ::setenv("VERBATIM_REHOME", means.rehome, 1);
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 1;
  end.tell(notes.ends[1], kRound);
  if (!await([&] { return notes.ends[0].ready == kRound; })) return 2;
  if (!end.connect(end.qp, notes.ends[0].number, kTiming)) return 2;
  if (!end.receive(end.qp, kReceive, end.sge(kHalf, kHalf))) return 3;
  notes.is_connected = true;
  if (!await([&] { return notes.is_over.load(); })) return 4;
  ibv_wc wc{};
  if (!end.collect(wc) || wc.wr_id != kReceive || wc.byte_len != 1000) return 5;
  std::uint64_t counter = 0;
  std::memcpy(&counter, end.buffer, sizeof counter);
  if (counter != 0x0101'0101'0101'0103) return 6;  // what was written, and one added twice
  return end.buffer[kHalf + 999] == std::byte{1} ? 0 : 7;
}

/// Posts to a target that is stopped; true if it completes when it should.
bool run_stopped(Notes& notes, End& end, ibv_wr_opcode opcode, std::uint32_t octets,
                 bool needs_target) {
  notes.stops = true;
  if (!await([&] { return notes.is_stopped.load(); })) return false;
  if (!End::post(end.qp, 0, opcode, end.sge(0, octets), notes.ends[1])) return false;
  ibv_wc wc{};
  bool has_come = !needs_target && end.collect(wc);
  for (int polls = 0; polls < 1000 && needs_target && !has_come; ++polls) {
    has_come = ibv_poll_cq(end.cq, 1, &wc) == 1;
  }
  const bool is_right = has_come != needs_target;
  notes.stops = false;
  if (!has_come && !end.collect(wc)) return false;
  return is_right && wc.status == IBV_WC_SUCCESS && await([&] { return !notes.is_stopped.load(); });
}

int be_initiator(Notes& notes, const Means& means) {
  ::setenv("VERBATIM_REHOME", means.rehome, 1);
  ::setenv("VERBATIM_CMA", means.cma, 1);
  if (!means.has_calls && !forbid_calls()) return 1;
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 2;
  std::memset(end.buffer, 1, End::kOctets);
  end.tell(notes.ends[0], kRound);
  if (!await([&] { return notes.ends[1].ready == kRound; })) return 3;
  if (!end.connect(end.qp, notes.ends[1].number, kTiming)) return 4;
  if (!await([&] { return notes.is_connected.load(); })) return 5;
  // First with a running target: the path is decided, and its engine records it.
  const EndNotes& target = notes.ends[1];
  if (end.run(IBV_WR_RDMA_WRITE, target, kHalf) != IBV_WC_SUCCESS) return 6;
  if (end.run(IBV_WR_RDMA_READ, target, kHalf) != IBV_WC_SUCCESS) return 7;
  if (end.run(IBV_WR_ATOMIC_FETCH_AND_ADD, target, 8) != IBV_WC_SUCCESS) return 8;
  std::memset(end.buffer, 1, 8);
  const bool waits = means.data_needs_it;
  if (!run_stopped(notes, end, IBV_WR_RDMA_WRITE, kHalf, waits)) return 9;
  if (!run_stopped(notes, end, IBV_WR_SEND, 1000, waits)) return 10;
  if (!run_stopped(notes, end, IBV_WR_RDMA_READ, kHalf, waits)) return 11;
  for (int i = 0; i < 2; ++i) {
    if (!run_stopped(notes, end, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, means.atomics_need_it)) return 12;
    std::uint64_t before = 0;
    std::memcpy(&before, end.buffer, sizeof before);
    if (before != 0x0101'0101'0101'0101U + static_cast<unsigned>(i)) return 13;
  }
  notes.is_over = true;
  return 0;
}

class StoppedPeer : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("VERBATIM_PATH");
    if (path != nullptr && std::strcmp(path, "packet") == 0) GTEST_SKIP() << "packets need its CPU";
    notes_ = share_with_children<Notes>();
    ASSERT_NE(notes_, nullptr);
  }

  /// Stops the target and lets it go on, as the initiator asks, until both have ended.
  void run(const Means& means) {
    const pid_t target = ::fork();
    if (target == 0) ::_exit(be_target(*notes_, means));
    const pid_t initiator = ::fork();
    if (initiator == 0) ::_exit(be_initiator(*notes_, means));
    int status = 0;
    while (::waitpid(initiator, &status, WNOHANG) == 0) {
      if (notes_->stops != notes_->is_stopped) {
        const bool stops = notes_->stops;
        ASSERT_EQ(::kill(target, stops ? SIGSTOP : SIGCONT), 0);
        int told = 0;
        if (stops) {
          ASSERT_EQ(::waitpid(target, &told, WUNTRACED), target);
        }
        notes_->is_stopped = stops;
      }
      ::usleep(50);
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "the initiator: " << WEXITSTATUS(status);
    ASSERT_EQ(::kill(target, SIGCONT), 0);
    notes_->is_over = true;
    ASSERT_EQ(::waitpid(target, &status, 0), target);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "the target: " << WEXITSTATUS(status);
  }

  Notes* notes_ = nullptr;
};

TEST_F(StoppedPeer, TakesWritesReadsAtomicsAndSendsInSharedMemory) { run({}); }

TEST_F(StoppedPeer, TakesThemInSharedMemoryWhereCallsAreForbidden) { run({.has_calls = false}); }

TEST_F(StoppedPeer, TakesAllButAtomicsInMemoryThatHasNotMoved) {
  run({.rehome = "0", .atomics_need_it = true});
}

TEST_F(StoppedPeer, MustRunWhereTheSystemForbidsCallsIntoOtherProcesses) {
  run({.rehome = "0", .has_calls = false, .atomics_need_it = true, .data_needs_it = true});
}

TEST_F(StoppedPeer, MustRunWhereItsPeerMakesNoCallsIntoOtherProcesses) {
  run({.rehome = "0", .cma = "0", .atomics_need_it = true, .data_needs_it = true});
}

}  // namespace
}  // namespace verbatim::testing
