// SPDX-License-Identifier: Apache-2.0
// A requester that is stopped at any point, on one host: it delays no other process, and when it
// goes on it disturbs nothing.
//
// VERBATIM_STRESS=1 in the environment makes it 3000 rounds instead of 40, VERBATIM_STRESS_ROUNDS
// as many as it says, and VERBATIM_SEED repeats what happened.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "two_ends.h"

namespace verbatim::testing {
namespace {

bool goes_through_packets() {
  const char* path = std::getenv("VERBATIM_PATH");
  return path != nullptr && std::strcmp(path, "packet") == 0;
}

/// What the processes tell each other.
struct Notes {
  EndNotes ends[2];
  std::atomic<std::uint32_t> over{0};
};

constexpr std::uint32_t kSendOctets = 1000;
constexpr std::uint32_t kReceiveOctets = 1024;
constexpr std::uint32_t kWrittenOctets = 64 * 1024;  // behind them the receives
constexpr End::Timing kHasty{.timeout = 10, .retry_count = 1, .rnr_retry = 7};
constexpr std::uint32_t kNoMore = ~0U;
constexpr std::chrono::seconds kComesBackWithin{5};

/// In each round: connects, and sends random requests until one fails.
int be_initiator(Notes& notes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  End end;
  if (!end.open()) return 1;
  for (std::uint32_t round = 1;; ++round) {
    if (!await([&] { return notes.ends[1].ready >= round; })) return 2;
    if (notes.ends[1].ready == kNoMore) return 0;
    if (!end.make_qp(&end.qp)) return 3;
    end.tell(notes.ends[0], round);
    if (!end.connect(end.qp, notes.ends[1].number, kHasty)) return 4;
    int status = IBV_WC_SUCCESS;
    while (status == IBV_WC_SUCCESS) {
      constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ,
                                            IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_WRITE};
      const ibv_wr_opcode opcode = kOpcodes[random() % std::size(kOpcodes)];
      const bool is_long = opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_READ;
      const std::uint32_t length = is_long                 ? kWrittenOctets
                                   : opcode == IBV_WR_SEND ? kSendOctets
                                                           : 8;
      status = end.run(opcode, notes.ends[1], length);
    }
    if (status < 0) return 5;  // not even a failure
    if (ibv_destroy_qp(end.qp) != 0) return 6;
    notes.over = round;
  }
}

/// Whether the memory lies where peers map it.
bool is_in_shared_memory(const void* at) {
  std::ifstream maps("/proc/self/maps");
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  for (std::string line; std::getline(maps, line);) {
    std::size_t dash = 0;
    const auto begin = std::stoull(line, &dash, 16);
    const auto end = std::stoull(line.substr(dash + 1), nullptr, 16);
    if (address >= begin && address < end) return line.find("memfd") != std::string::npos;
  }
  return false;
}

class StoppedInitiator : public ::testing::Test {
 protected:
  enum class Action : std::uint8_t { kError, kReset, kDestroy, kDeregister, kCount };

  void SetUp() override {
    const char* rounds = std::getenv("VERBATIM_STRESS_ROUNDS");
    rounds_ = rounds != nullptr ? static_cast<std::uint32_t>(std::atoi(rounds))
              : std::getenv("VERBATIM_STRESS") != nullptr ? 3000
                                                          : 40;
    const char* seed = std::getenv("VERBATIM_SEED");
    seed_ = seed != nullptr ? std::strtoull(seed, nullptr, 0) : std::random_device{}();
    random_.seed(seed_);
    initiator_ = ::fork();
    if (initiator_ == 0) ::_exit(be_initiator(notes_, seed_));
    ASSERT_TRUE(end_.open() && end_.make_srq());
    // Each round has memory of its own, at addresses that no other had.
    void* at = ::mmap(nullptr, std::size_t{rounds_} * End::kOctets, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    memory_ = static_cast<std::byte*>(at);
    own_mr_ = end_.mr;
    own_buffer_ = end_.buffer;
  }
  void TearDown() override {
    notes_.ends[1].ready = kNoMore;
    int status = 0;
    ASSERT_EQ(::waitpid(initiator_, &status, 0), initiator_);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    std::printf(
        "%u rounds, %u in shared memory, %u with deregistration, %u receives gone with a queue "
        "pair; longest call %.3f s (VERBATIM_SEED=%llu)\n",
        rounds_, moved_, deregistered_, gone_, longest_.count(),
        static_cast<unsigned long long>(seed_));
    // The time between a message and its completion is short, so few requesters are stopped there.
    EXPECT_LE(gone_, std::max(2U, rounds_ / 20)) << "shared receives are lost, and not by chance";
  }

  /// While the initiator is stopped, the call must return. A call that waited for it would hang.
  template <typename Call>
  void expect_no_delay(const char* what, Call&& call) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(call()) << what;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    longest_ = std::max(longest_, took);
    EXPECT_LT(took.count(), 20.0) << what;
  }

  bool post_receive(ibv_qp* qp) {
    const std::uint64_t id = next_id_++;
    const auto place = static_cast<std::uint32_t>(id % End::kDepth);
    if (!end_.receive(qp, id, end_.sge(kWrittenOctets + place * kReceiveOctets, kReceiveOctets))) {
      return false;
    }
    posted_.insert(id);
    return true;
  }
  /// A completion of the receives: each is there once.
  void take(const ibv_wc& wc) {
    EXPECT_EQ(posted_.erase(wc.wr_id), 1U) << "completion of " << wc.wr_id;
    if (wc.status != IBV_WC_SUCCESS) return;
    EXPECT_EQ(wc.byte_len, kSendOctets);
  }

  void run_round(std::uint32_t round, bool is_shared, Action action);
  void serve_for(std::chrono::microseconds time, ibv_qp* qp);
  void stop();
  void act(Action action);
  void exchange_with_self(std::uint32_t messages, bool is_shared);
  void use_up_shared_receives(bool may_lose_one);

  bool connect_with_self(ibv_qp** one, ibv_qp** other, bool is_shared) {
    return end_.make_qp(one) && end_.make_qp(other, is_shared) &&
           end_.connect(*one, (*other)->qp_num, {}) && end_.connect(*other, (*one)->qp_num, {});
  }
  [[nodiscard]] ibv_sge own_sge() const {
    return {.addr = reinterpret_cast<std::uintptr_t>(own_buffer_),
            .length = kSendOctets,
            .lkey = own_mr_->lkey};
  }
  /// A completion of a message from this process to its own queue pair `other`, at either end.
  void take_own(const ibv_wc& wc, const ibv_qp* other) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    if (wc.opcode != IBV_WC_RECV) return;
    EXPECT_EQ(wc.qp_num, other->qp_num);
    take(wc);
  }
  bool poll_for(std::chrono::milliseconds time, ibv_wc& wc) const {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) {
      if (ibv_poll_cq(end_.cq, 1, &wc) == 1) return true;
    }
    return false;
  }

  Notes& notes_ = *share_with_children<Notes>();
  pid_t initiator_ = 0;
  End end_;
  std::uint32_t rounds_ = 0;
  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
  std::byte* memory_ = nullptr;
  ibv_mr* own_mr_ = nullptr;  // of memory that no peer knows
  std::byte* own_buffer_ = nullptr;
  std::set<std::uint64_t> posted_;  // receives that have not completed
  std::uint64_t next_id_ = 1;
  std::uint32_t deregistered_ = 0;
  std::uint32_t moved_ = 0;
  std::uint32_t gone_ = 0;  // shared receives whose completion went with a queue pair
  std::chrono::duration<double> longest_{0};
};

void StoppedInitiator::serve_for(std::chrono::microseconds time, ibv_qp* qp) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
    ibv_wc wc{};
    if (ibv_poll_cq(end_.cq, 1, &wc) != 1) continue;
    take(wc);
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    ASSERT_TRUE(post_receive(qp));
  }
}

void StoppedInitiator::stop() {
  ASSERT_EQ(::kill(initiator_, SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(initiator_, &status, WUNTRACED), initiator_);
  ASSERT_TRUE(WIFSTOPPED(status)) << "the initiator has ended: " << status;
}

/// What the program does while the initiator is stopped.
void StoppedInitiator::act(Action action) {
  const bool is_shared = end_.qp->srq != nullptr;
  ibv_wc wc{};
  while (ibv_poll_cq(end_.cq, 1, &wc) == 1) take(wc);
  if (posted_.size() < End::kDepth) {
    expect_no_delay("post", [&] { return post_receive(end_.qp); });
  }
  switch (action) {
    case Action::kError:
      expect_no_delay("to ERR", [&] { return End::to_state(end_.qp, IBV_QPS_ERR); });
      while (is_shared && ibv_poll_cq(end_.cq, 1, &wc) == 1) take(wc);
      while (!is_shared && !posted_.empty()) {
        ASSERT_TRUE(end_.collect(wc)) << posted_.size() << " receives are missing";
        take(wc);
      }
      break;
    case Action::kReset:
      expect_no_delay("to RESET", [&] { return End::to_state(end_.qp, IBV_QPS_RESET); });
      expect_no_delay("to INIT", [&] { return End::to_init(end_.qp); });
      break;
    case Action::kDestroy:
      break;
    case Action::kDeregister:
      ++deregistered_;
      expect_no_delay("deregister", [&] { return ibv_dereg_mr(end_.mr) == 0; });
      end_.mr = nullptr;
      break;
    case Action::kCount:
      break;
  }
  expect_no_delay("destroy", [&] { return ibv_destroy_qp(end_.qp) == 0; });
  if (!is_shared) posted_.clear();
}

/// Two new queue pairs of this process work.
void StoppedInitiator::exchange_with_self(std::uint32_t messages, bool is_shared) {
  ibv_qp* one = nullptr;
  ibv_qp* other = nullptr;
  ASSERT_TRUE(connect_with_self(&one, &other, is_shared));
  for (std::uint32_t i = 0; i < messages; ++i) {
    if (!is_shared) {
      const ibv_sge into{
          .addr = own_sge().addr + kReceiveOctets, .length = kReceiveOctets, .lkey = own_mr_->lkey};
      ASSERT_TRUE(end_.receive(other, next_id_, into));
      posted_.insert(next_id_++);
    }
    ASSERT_TRUE(End::post(one, 0, IBV_WR_SEND, own_sge(), {}));
    for (int ends = 0; ends < 2; ++ends) {
      ibv_wc wc{};
      ASSERT_TRUE(end_.collect(wc)) << "message " << i << ", receives left: " << posted_.size();
      take_own(wc, other);
    }
  }
  EXPECT_EQ(ibv_destroy_qp(one), 0);
  EXPECT_EQ(ibv_destroy_qp(other), 0);
}

/// Each of the shared receives that are left takes a message.
///
/// One receive may be missing. The initiator may have been stopped when its message had filled a
/// receive and the completion was not published yet. RESET and destruction of the queue pair drop
/// completions that were not polled, as on any adapter, so this receive is lost. ERR loses none: a
/// receive that is in use completes or is flushed. A receive that was taken and not filled returns
/// to the shared queue a moment after the initiator has continued.
void StoppedInitiator::use_up_shared_receives(bool may_lose_one) {
  ASSERT_FALSE(posted_.empty());
  exchange_with_self(static_cast<std::uint32_t>(posted_.size()) - (may_lose_one ? 1 : 0), true);
  if (!may_lose_one || HasFailure()) return;
  ASSERT_EQ(posted_.size(), 1U);
  ibv_qp* one = nullptr;
  ibv_qp* other = nullptr;
  ASSERT_TRUE(connect_with_self(&one, &other, true));
  ASSERT_TRUE(End::post(one, 0, IBV_WR_SEND, own_sge(), {}));
  ibv_wc wc{};
  if (!poll_for(kComesBackWithin, wc)) {
    ++gone_;
    posted_.clear();
    ASSERT_TRUE(post_receive(other));
    ASSERT_TRUE(end_.collect(wc));
  }
  take_own(wc, other);
  ASSERT_TRUE(end_.collect(wc));
  take_own(wc, other);
  EXPECT_EQ(ibv_destroy_qp(one), 0);
  EXPECT_EQ(ibv_destroy_qp(other), 0);
}

void StoppedInitiator::run_round(std::uint32_t round, bool is_shared, Action action) {
  end_.buffer = memory_ + std::size_t{round - 1} * End::kOctets;
  std::memset(end_.buffer, 0, End::kOctets);
  ASSERT_TRUE(end_.register_buffer());
  // Before any peer knows of it, so no peer reaches it by a system call.
  const bool moves = is_in_shared_memory(end_.buffer);
  ASSERT_TRUE(end_.make_qp(&end_.qp, is_shared));
  for (std::uint32_t i = 0; i < End::kDepth; ++i) ASSERT_TRUE(post_receive(end_.qp));
  end_.tell(notes_.ends[1], round);
  ASSERT_TRUE(await([&] { return notes_.ends[0].ready == round; }));
  ASSERT_TRUE(end_.connect(end_.qp, notes_.ends[0].number, kHasty));
  serve_for(std::chrono::microseconds(random_() % 3000), end_.qp);
  stop();
  // Where peers need system calls, a deregistration waits for a stopped peer; other calls do not.
  if (!moves && action == Action::kDeregister) action = Action::kDestroy;
  moved_ += moves ? 1 : 0;
  // The next requester uses the shared receives and their memory.
  if (is_shared && action == Action::kDeregister) action = Action::kError;
  act(action);
  std::memset(end_.buffer, 0x5a, End::kOctets);
  ASSERT_EQ(::kill(initiator_, SIGCONT), 0);
  exchange_with_self(8, false);
  ASSERT_TRUE(await([&] { return notes_.over == round; })) << "the initiator hangs";
  const auto is_ours = [](std::byte octet) { return octet == std::byte{0x5a}; };
  if (moves) {
    EXPECT_TRUE(std::all_of(end_.buffer, end_.buffer + End::kOctets, is_ours)) << "a late store";
  }
  if (is_shared) {
    use_up_shared_receives(action == Action::kReset || action == Action::kDestroy);
  }
  EXPECT_TRUE(posted_.empty());
  if (end_.mr != nullptr) {
    EXPECT_EQ(ibv_dereg_mr(end_.mr), 0);
  }
  ::madvise(end_.buffer, End::kOctets, MADV_DONTNEED);
}

TEST_F(StoppedInitiator, DelaysNoProcessAndDisturbsNothing) {
  if (goes_through_packets()) GTEST_SKIP() << "packets do not enter a half";
  for (std::uint32_t round = 1; round <= rounds_; ++round) {
    const auto action = Action(random_() % static_cast<unsigned>(Action::kCount));
    run_round(round, random_() % 3 == 0, action);
    if (HasFailure()) {
      ::kill(initiator_, SIGCONT);
      FAIL() << "round " << round << ", action " << static_cast<int>(action)
             << ", VERBATIM_SEED=" << seed_;
    }
  }
}

}  // namespace
}  // namespace verbatim::testing
