// SPDX-License-Identifier: Apache-2.0
// A thread of the library is in the middle of an access to registered memory while another thread
// unmaps or deregisters the memory. When that call returns, the access is over: other memory at the
// same addresses is neither written nor read.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <bit>
#include <thread>

#include "in_process.h"
#include "two_ends.h"

namespace verbatim::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kOctets = 1 << 20;
constexpr unsigned kRounds = 8;
// A call that takes memory away waits for an access for a limited time. In a round in which it has
// waited for so long, the access may go on.
constexpr auto kLimitOfWaiting = std::chrono::milliseconds(30);
// An access is stopped for less than that.
constexpr auto kStop = std::chrono::milliseconds(8);
constexpr auto kForeign = std::byte{'F'};

/// What is done with the memory that is taken away.
enum class Use : std::uint8_t { kWritten, kReadInto, kReceivedInto, kWrittenFrom };
/// How it is taken away.
enum class TakenBy : std::uint8_t { kUnmapped, kDeregistered };

constexpr std::size_t kPage = 4096;

// A page in the middle of the memory, which stops the thread that comes to it.
std::atomic<std::byte*> g_barrier{nullptr};
std::atomic<bool> g_is_stopped{false};
std::atomic<bool> g_may_go_on{false};
struct sigaction g_before;  // the handler of the library

void handle_fault(int number, siginfo_t* info, void* context) {
  std::byte* const barrier = g_barrier;
  const auto* const at = static_cast<const std::byte*>(info->si_addr);
  if (barrier == nullptr || at < barrier || at >= barrier + kPage) {
    return g_before.sa_sigaction(number, info, context);
  }
  g_is_stopped = true;
  const auto end = Clock::now() + kStop;
  while (!g_may_go_on && Clock::now() < end) {
  }
  const bool is_there = ::mprotect(barrier, kPage, PROT_READ | PROT_WRITE) == 0;
  if (!is_there) g_before.sa_sigaction(number, info, context);
}

/// After the library has installed its handler.
void install_handler() {
  struct sigaction action {};
  action.sa_sigaction = &handle_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSEGV, &action, &g_before);
}

std::byte* map_at(void* where, int more) {
  void* at =
      ::mmap(where, kOctets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | more, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

struct Notes {
  EndNotes owner;  // of the memory that is taken away
  EndNotes peer;   // of the memory at the other end, in another process
  std::atomic<std::uint32_t> done{0};
  std::atomic<bool> is_over{false};
};

/// The process whose memory is taken away.
class Owner {
 public:
  Owner(Use use, TakenBy how) : use_(use), how_(how) {}

  /// The other end is in this process.
  bool run_alone() {
    if (!end_.open() || !open_other()) return false;
    install_handler();
    for (unsigned round = 1; round <= kRounds; ++round) {
      if (!end_.make_qp(&end_.qp) || !end_.make_qp(&peer_)) return false;
      const End::Timing timing;
      if (!end_.connect(end_.qp, peer_->qp_num, timing) ||
          !end_.connect(peer_, end_.qp->qp_num, timing)) {
        return false;
      }
      if (!take_away(round)) return false;
      if (ibv_destroy_qp(peer_) != 0 || ibv_destroy_qp(end_.qp) != 0) return false;
      drain();
    }
    return true;
  }
  /// The other end is in another process.
  bool run_beside(Notes& notes) {
    if (!end_.open()) return false;
    install_handler();
    for (unsigned round = 1; round <= kRounds; ++round) {
      if (!end_.make_qp(&end_.qp)) return false;
      notes.owner.number = end_.qp->qp_num;
      notes.owner.ready = round;
      if (!await([&] { return notes.peer.ready == round; })) return false;
      if (!end_.connect(end_.qp, notes.peer.number, {})) return false;
      there_.address = notes.peer.address;
      there_.rkey = notes.peer.rkey;
      if (!take_away(round)) return false;
      if (ibv_destroy_qp(end_.qp) != 0) return false;
      drain();
      notes.done = round;
    }
    return true;
  }

 private:
  bool open_other() {
    other_ = map_at(nullptr, MAP_POPULATE);
    if (other_ == nullptr) return false;
    other_mr_ = ibv_reg_mr(end_.pd, other_, kOctets, End::kAllAccess);
    return other_mr_ != nullptr;
  }
  void drain() {
    ibv_wc wc{};
    while (ibv_poll_cq(end_.cq, 1, &wc) > 0) {
    }
  }

  static ibv_sge all_of(const std::byte* at, const ibv_mr* mr) {
    return {.addr = std::bit_cast<std::uintptr_t>(at), .length = kOctets, .lkey = mr->lkey};
  }
  /// One request that uses the memory. False when it has failed.
  bool request() {
    const bool is_here = use_ == Use::kReadInto || use_ == Use::kWrittenFrom;
    const auto opcode = use_ == Use::kReadInto       ? IBV_WR_RDMA_READ
                        : use_ == Use::kReceivedInto ? IBV_WR_SEND
                                                     : IBV_WR_RDMA_WRITE;
    EndNotes to;
    to.address = other_ == nullptr ? there_.address : std::bit_cast<std::uintptr_t>(other_);
    to.rkey = other_ == nullptr ? there_.rkey : other_mr_->rkey;
    if (use_ == Use::kWritten) {
      to.address = std::bit_cast<std::uintptr_t>(memory_);
      to.rkey = mr_->rkey;
    }
    if (use_ == Use::kReceivedInto && !end_.receive(peer_, 0, all_of(memory_, mr_))) return false;
    const auto piece = is_here ? all_of(memory_, mr_) : all_of(other_, other_mr_);
    if (!End::post(end_.qp, 0, opcode, piece, to)) return false;
    for (int due = use_ == Use::kReceivedInto ? 2 : 1; due > 0; --due) {
      ibv_wc wc{};
      if (!end_.collect(wc) || wc.status != IBV_WC_SUCCESS) return false;
    }
    return true;
  }

  /// Takes the memory away in the middle of a request, and gives its addresses to other memory.
  bool take_away(unsigned round) {
    memory_ = map_at(nullptr, MAP_POPULATE);
    if (memory_ == nullptr) return false;
    mr_ = ibv_reg_mr(end_.pd, memory_, kOctets, End::kAllAccess);
    if (mr_ == nullptr) return false;
    g_is_stopped = g_may_go_on = false;
    if (!request()) return false;
    // The second direct request, and its first part: they are executed without a lock for which the
    // other thread would wait.
    std::byte* const barrier = memory_ + kOctets / 8;
    g_barrier = barrier;
    bool is_good = ::mprotect(barrier, kPage, PROT_NONE) == 0;
    std::thread worker([&] {
      while (request()) {
      }
    });
    is_good = await([&] { return g_is_stopped.load(); }) && is_good;
    const auto begin = Clock::now();
    if (how_ == TakenBy::kDeregistered) is_good = is_good && ibv_dereg_mr(mr_) == 0;
    is_good = is_good && ::munmap(memory_, kOctets) == 0;
    const bool counts = Clock::now() - begin < kLimitOfWaiting;
    is_good = is_good && map_at(memory_, MAP_FIXED_NOREPLACE | MAP_POPULATE) == memory_;
    if (is_good) std::fill_n(memory_, kOctets, kForeign);
    g_may_go_on = true;
    worker.join();
    if (is_good && counts) is_good = is_untouched(round);
    ::munmap(memory_, kOctets);
    return is_good && (how_ == TakenBy::kDeregistered || ibv_dereg_mr(mr_) == 0);
  }
  [[nodiscard]] bool is_untouched(unsigned round) const {
    const bool is_read = use_ == Use::kWrittenFrom;
    const std::byte* const at = is_read ? other_ : memory_;
    const auto strange = std::count_if(
        at, at + kOctets, [&](std::byte octet) { return (octet == kForeign) == is_read; });
    if (strange == 0) return true;
    std::fprintf(stderr, "round %u: %td octets of other memory were %s\n", round, strange,
                 is_read ? "sent" : "written");
    return false;
  }

  const Use use_;
  const TakenBy how_;
  End end_;
  ibv_qp* peer_ = nullptr;      // the other end, in this process
  std::byte* other_ = nullptr;  // its memory
  ibv_mr* other_mr_ = nullptr;
  EndNotes there_;  // memory of the other process
  std::byte* memory_ = nullptr;
  ibv_mr* mr_ = nullptr;
};

/// The other process: its memory is read.
bool be_read(Notes& notes) {
  End end;
  if (!end.open()) return false;
  std::byte* const at = map_at(nullptr, MAP_POPULATE);
  if (at == nullptr) return false;
  ibv_mr* const mr = ibv_reg_mr(end.pd, at, kOctets, End::kAllAccess);
  if (mr == nullptr) return false;
  for (unsigned round = 1; round <= kRounds; ++round) {
    if (!await([&] { return notes.owner.ready == round || notes.is_over; })) return false;
    if (notes.is_over || !end.make_qp(&end.qp)) return false;
    if (!end.connect(end.qp, notes.owner.number, {})) return false;
    notes.peer.number = end.qp->qp_num;
    notes.peer.address = std::bit_cast<std::uintptr_t>(at);
    notes.peer.rkey = mr->rkey;
    notes.peer.ready = round;
    if (!await([&] { return notes.done == round || notes.is_over; })) return false;
    if (ibv_destroy_qp(end.qp) != 0) return false;
  }
  return true;
}

class AccessUnderWay : public ::testing::Test {
 protected:
  static void expect_none_alone(Use use) {
    EXPECT_EQ(in_process([=] { return Owner(use, TakenBy::kUnmapped).run_alone() ? 0 : 1; }), 0);
  }
  static void expect_none_beside(TakenBy how) {
    ::setenv("VERBATIM_PATH", "direct", 1);
    ::setenv("VERBATIM_REHOME", "1", 1);  // the memory that is read is reached by pointers
    Notes& notes = *share_with_children<Notes>();
    const pid_t peer = start_process([&] { return be_read(notes) ? 0 : 1; });
    const pid_t owner = start_process([&] {
      const bool is_good = Owner(Use::kReadInto, how).run_beside(notes);
      notes.is_over = true;
      return is_good ? 0 : 1;
    });
    EXPECT_EQ(exit_status_of(owner), 0);
    EXPECT_EQ(exit_status_of(peer), 0);
    ::munmap(&notes, sizeof notes);
  }
};

TEST_F(AccessUnderWay, OfPacketsThatAreStoredDoesNotReachOtherMemory) {
  expect_none_alone(Use::kWritten);
}

TEST_F(AccessUnderWay, OfAnswersThatAreStoredDoesNotReachOtherMemory) {
  expect_none_alone(Use::kReadInto);
}

TEST_F(AccessUnderWay, OfMessagesThatAreStoredDoesNotReachOtherMemory) {
  expect_none_alone(Use::kReceivedInto);
}

TEST_F(AccessUnderWay, OfPacketsThatAreWrittenDoesNotSendOtherMemory) {
  expect_none_alone(Use::kWrittenFrom);
}

TEST_F(AccessUnderWay, OfADirectRequestDoesNotReachOtherMemory) {
  expect_none_beside(TakenBy::kUnmapped);
}

TEST_F(AccessUnderWay, OfADirectRequestIsOverWhenTheMemoryIsDeregistered) {
  expect_none_beside(TakenBy::kDeregistered);
}

}  // namespace
}  // namespace verbatim::testing
