// SPDX-License-Identifier: Apache-2.0
// A requester loses its processor in the middle of a request for longer than the owner of the
// memory waits, and the owner deregisters other memory meanwhile. The memory of the request is
// still registered: the request succeeds, and its octets are there.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <thread>

#include "in_process.h"
#include "missing_page.h"
#include "two_ends.h"

namespace verbatim::testing {
namespace {

constexpr std::uint32_t kPage = MissingPage::kOctets;
constexpr std::uint32_t kReceiveAt = 64 * 1024;  // in the owner's buffer
constexpr auto kWritten = std::byte{'W'};
constexpr auto kOwners = std::byte{'O'};

/// What the two processes tell each other.
struct Notes {
  EndNotes owner;
  EndNotes requester;
  std::uint32_t second_owner = 0;  // the numbers of another connection, if there is one
  std::uint32_t second_requester = 0;
  std::atomic<int> holds{0};         // how many accesses of the requester are to wait inside
  std::atomic<int> inside{0};        // how many accesses wait there now
  std::atomic<bool> goes_on{false};  // the accesses that wait may continue
  std::atomic<bool> is_over{false};  // the requester has seen its completion
  std::atomic<bool> may_end{false};
  std::atomic<bool> has_failed{false};  // one process has failed: the other need not wait

  template <typename Condition>
  [[nodiscard]] bool await(Condition&& condition) const {
    return testing::await([&] { return condition() || has_failed; }) && !has_failed;
  }
};
Notes* g_notes = nullptr;

void hold() {
  if (g_notes->holds.load() <= 0 || g_notes->holds.fetch_sub(1) <= 0) return;
  ++g_notes->inside;
  while (!g_notes->goes_on && !g_notes->has_failed) ::usleep(50);
}

// ---- Held in a system call ----

/// In place of preadv(2) or pwritev(2), which the filter keeps from running.
void make_call_later(int, siginfo_t* info, void* context) {
  hold();
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext;
  const long number = info->si_syscall == SYS_preadv ? SYS_preadv2 : SYS_pwritev2;
#if defined(__aarch64__)
  const auto argument = [&](int i) { return registers.regs[i]; };
  auto& answer = registers.regs[0];
#else
  constexpr int kArguments[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8};
  const auto argument = [&](int i) { return registers.gregs[kArguments[i]]; };
  auto& answer = registers.gregs[REG_RAX];
#endif
  const long done =
      ::syscall(number, argument(0), argument(1), argument(2), argument(3), argument(4), 0);
  answer = static_cast<std::remove_reference_t<decltype(answer)>>(done < 0 ? -errno : done);
}

/// From now on each access to the memory of another process can be held.
bool catch_calls() {
  struct sigaction action {};
  action.sa_sigaction = &make_call_later;
  action.sa_flags = SA_SIGINFO;
  if (::sigaction(SIGSYS, &action, nullptr) != 0) return false;
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_preadv, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwritev, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = std::size(code), .filter = code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

// ---- Held in a copy ----

/// A page of the requester that is missing until the test fills it: a copy from there waits, and so
/// does one to there.
class HeldPage {
 public:
  bool open() {
    if (!page_.open()) return false;
    filler_ = std::thread([this] {
      if (!page_.wait_for_touch()) return;
      hold();
      page_.fill(kWritten);
    });
    return true;
  }
  ~HeldPage() {
    if (filler_.joinable()) filler_.join();
  }
  [[nodiscard]] std::byte* at() const { return page_.at(); }

 private:
  MissingPage page_;
  std::thread filler_;
};

// ---- The two processes ----

struct Owner : End {
  ibv_qp* second = nullptr;
};

struct Scene {
  const char* rehome = "0";  // the owner's VERBATIM_REHOME: 0: system calls, 1: copies
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  int (*meanwhile)(Owner& owner) = nullptr;  // what the owner does; 0, or where it failed
  bool has_second = false;                   // a second connection of the same two processes
};

bool are_all(const std::byte* at, std::byte value) {
  return std::all_of(at, at + kPage, [&](std::byte octet) { return octet == value; });
}

/// The requester's end of the second connection, which is held inside as well. The result of that
/// request is not checked.
class SecondEnd {
 public:
  bool open(Notes& notes) {
    if (!end_.open() || !end_.make_qp(&end_.qp)) return false;
    notes.second_requester = end_.qp->qp_num;
    return true;
  }
  bool write(const Notes& notes) {
    if (!end_.connect(end_.qp, notes.second_owner, {})) return false;
    if (end_.run(IBV_WR_RDMA_READ, notes.owner, kPage) != IBV_WC_SUCCESS || !page_.open()) {
      return false;
    }
    ibv_mr* const mr = ibv_reg_mr(end_.pd, page_.at(), kPage, End::kAllAccess);
    if (mr == nullptr) return false;
    const ibv_sge ours{
        .addr = std::bit_cast<std::uintptr_t>(page_.at()), .length = kPage, .lkey = mr->lkey};
    thread_ = std::thread([this, ours, &notes] {
      EndNotes to;
      to.address = notes.owner.address + kReceiveAt;
      to.rkey = notes.owner.rkey;
      (void)End::post(end_.qp, 0, IBV_WR_RDMA_WRITE, ours, to);
    });
    return notes.await([&] { return notes.inside == 1; });
  }
  ~SecondEnd() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  End end_;
  HeldPage page_;
  std::thread thread_;
};

/// One request that is held inside, and one that is not.
int be_requester(Notes& notes, const Scene& scene) {
  g_notes = &notes;
  const bool copies = std::strcmp(scene.rehome, "1") == 0;
  SecondEnd second;
  HeldPage page;
  End end;
  if (!copies && !catch_calls()) return 1;
  if (!end.open() || !end.make_qp(&end.qp)) return 2;
  if (scene.has_second && !second.open(notes)) return 2;
  end.tell(notes.requester, 1);
  if (!notes.await([&] { return notes.owner.ready == 1; })) return 3;
  if (!end.connect(end.qp, notes.owner.number, {})) return 4;
  // The first request of the connection decides the path, and the peer's engine records it.
  if (end.run(IBV_WR_RDMA_READ, notes.owner, kPage) != IBV_WC_SUCCESS) return 5;
  const bool reads = scene.opcode == IBV_WR_RDMA_READ;
  std::memset(end.buffer, reads ? 0 : static_cast<int>(kWritten), kPage);
  ibv_sge ours = end.sge(0, kPage);
  if (copies) {
    if (!page.open()) return 6;
    ibv_mr* const mr = ibv_reg_mr(end.pd, page.at(), kPage, End::kAllAccess);
    if (mr == nullptr) return 7;
    ours = {.addr = std::bit_cast<std::uintptr_t>(page.at()), .length = kPage, .lkey = mr->lkey};
  }
  notes.holds = scene.has_second ? 2 : 1;
  if (scene.has_second && !second.write(notes)) return 8;
  if (!End::post(end.qp, 0, scene.opcode, ours, notes.owner)) return 8;
  ibv_wc wc{};
  if (!end.collect(wc)) return 9;
  if (wc.status != IBV_WC_SUCCESS) return 100 + static_cast<int>(wc.status);
  const auto* const got = std::bit_cast<const std::byte*>(static_cast<std::uintptr_t>(ours.addr));
  if (reads && !are_all(got, kOwners)) return 10;
  notes.is_over = true;
  if (!notes.await([&] { return notes.may_end.load(); })) return 11;
  std::memset(end.buffer, static_cast<int>(kWritten) + 1, kPage);
  const int status = end.run(IBV_WR_RDMA_WRITE, notes.owner, kPage);
  notes.is_over = false;
  return status == IBV_WC_SUCCESS ? 0 : 12;
}

int be_owner(Notes& notes, const Scene& scene) {
  ::setenv("VERBATIM_REHOME", scene.rehome, 1);
  Owner end;
  if (!end.open() || !end.make_qp(&end.qp) || !end.make_qp(&end.second)) return 21;
  std::fill_n(end.buffer, End::kOctets, kOwners);
  if (!notes.await([&] { return notes.requester.ready == 1; })) return 22;
  if (!end.connect(end.qp, notes.requester.number, {})) return 23;
  if (scene.has_second && !end.connect(end.second, notes.second_requester, {})) return 23;
  notes.second_owner = end.second->qp_num;
  if (!end.receive(end.qp, 1, end.sge(kReceiveAt, kPage))) return 24;
  end.tell(notes.owner, 1);
  const int held = scene.has_second ? 2 : 1;
  if (!notes.await([&] { return notes.inside == held; })) return 25;
  if (const int failed = scene.meanwhile(end); failed != 0) return failed;
  notes.goes_on = true;
  if (!notes.await([&] { return notes.is_over.load(); })) return 26;
  const bool receives = scene.opcode == IBV_WR_SEND || scene.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  ibv_wc wc{};
  if (receives && (!end.collect(wc) || wc.status != IBV_WC_SUCCESS)) return 27;
  const std::byte* const there = end.buffer + (scene.opcode == IBV_WR_SEND ? kReceiveAt : 0);
  if (!are_all(there, scene.opcode == IBV_WR_RDMA_READ ? kOwners : kWritten)) return 28;
  if (!receives && ibv_poll_cq(end.cq, 1, &wc) != 0) return 29;
  notes.may_end = true;
  if (!notes.await([&] { return !notes.is_over.load(); })) return 30;
  if (!are_all(end.buffer, std::byte(static_cast<int>(kWritten) + 1))) return 31;
  return 0;
}

class LateVisit : public ::testing::TestWithParam<ibv_wr_opcode> {
 protected:
  void run(const char* rehome, int (*meanwhile)(Owner&), bool has_second = false) {
    const Scene scene{
        .rehome = rehome, .opcode = GetParam(), .meanwhile = meanwhile, .has_second = has_second};
    const pid_t owner = start_process(notes_.has_failed, [&] { return be_owner(notes_, scene); });
    const pid_t requester =
        start_process(notes_.has_failed, [&] { return be_requester(notes_, scene); });
    const int failed = exit_status_of(requester);
    EXPECT_EQ(failed, 0) << "the requester "
                         << (failed > 100 ? ibv_wc_status_str(ibv_wc_status(failed - 100)) : "");
    EXPECT_EQ(exit_status_of(owner), 0) << "the owner";
  }
  void TearDown() override { ::munmap(&notes_, sizeof notes_); }

  Notes& notes_ = *share_with_children<Notes>();
};

INSTANTIATE_TEST_SUITE_P(Requests, LateVisit,
                         ::testing::Values(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
                                           IBV_WR_RDMA_WRITE_WITH_IMM),
                         [](const auto& opcode) {
                           switch (opcode.param) {
                             case IBV_WR_RDMA_WRITE:
                               return "Write";
                             case IBV_WR_RDMA_READ:
                               return "Read";
                             case IBV_WR_SEND:
                               return "Send";
                             default:
                               return "WriteWithImmediate";
                           }
                         });

/// Registered and deregistered while the requester is inside: of memory that has nothing to do with
/// its request.
int deregister_other_memory(Owner& owner) {
  void* const at =
      ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ibv_mr* const mr = ibv_reg_mr(owner.pd, at, kPage, End::kAllAccess);
  return mr != nullptr && ibv_dereg_mr(mr) == 0 ? 0 : 40;
}

/// The same for another region of the same memory.
int deregister_second_region(Owner& owner) {
  ibv_mr* const mr = ibv_reg_mr(owner.pd, owner.buffer, End::kOctets, End::kAllAccess);
  return mr != nullptr && ibv_dereg_mr(mr) == 0 ? 0 : 41;
}

/// The region of the request itself, which keeps its key and its rights.
int register_again(Owner& owner) {
  return ibv_rereg_mr(owner.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, End::kAllAccess) ==
                 0
             ? 0
             : 42;
}

/// With a requester inside that is late as well: it is locked out, and the memory moves away.
int destroy_second(Owner& owner) { return ibv_destroy_qp(owner.second) == 0 ? 0 : 43; }

TEST_P(LateVisit, ByCallSucceedsThoughOtherMemoryIsDeregistered) {
  run("0", &deregister_other_memory);
}

TEST_P(LateVisit, ByCopySucceedsThoughOtherMemoryIsDeregistered) {
  run("1", &deregister_other_memory);
}

TEST_P(LateVisit, ByCopySucceedsThoughAnotherRegionOfTheMemoryIsDeregistered) {
  run("1", &deregister_second_region);
}

TEST_P(LateVisit, ByCopySucceedsThoughAnotherQueuePairIsDestroyed) {
  run("1", &destroy_second, true);
}

TEST_P(LateVisit, ByCopySucceedsThoughItsRegionIsRegisteredAgain) { run("1", &register_again); }

}  // namespace
}  // namespace verbatim::testing
