// SPDX-License-Identifier: Apache-2.0
// A sender of an unreliable service waits for a late receiver of the same host, but not for ever.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <new>
#include <vector>

#include "qp_capacity.h"

namespace verbatim::testing {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::uint32_t kMessages = 64;
constexpr std::uint32_t kMessageOctets = 64 << 10;  // together ten times an ordinary buffer
constexpr std::chrono::seconds kPatience{60};

/// What the processes know of each other.
struct Board {
  std::atomic<std::uint32_t> receiver_qp{0};
  std::atomic<std::uint32_t> sender_qp{0};
  std::atomic<bool> is_receiver_ready{false};
  std::atomic<bool> may_send{false};
  std::atomic<bool> may_end{false};
  std::atomic<std::uint32_t> received{0};     // messages, each of them right
  std::atomic<std::uint32_t> completed{0};    // sends
  std::atomic<std::uint32_t> done_beside{0};  // round trips of the sender with itself meanwhile
};

template <typename Condition>
bool wait_for(Condition&& condition, std::chrono::nanoseconds patience = kPatience) {
  for (const auto end = Clock::now() + patience; !condition();) {
    if (Clock::now() > end) return false;
    (void)::poll(nullptr, 0, 1);
  }
  return true;
}

/// Gives this process's sockets of the RoCE port what an ordinary system gives, whatever this one
/// does.
void shrink_receive_buffers() {
  constexpr int kOrdinaryOctets = 212'992;
  for (int socket = 0; socket < 1024; ++socket) {
    sockaddr_in name{};
    socklen_t octets = sizeof name;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &octets) != 0) continue;
    if (name.sin_family != AF_INET || ntohs(name.sin_port) != 4791) continue;
    (void)::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &kOrdinaryOctets, sizeof kOrdinaryOctets);
  }
}

std::uint8_t octet(std::uint32_t message, std::uint32_t at) {
  return static_cast<std::uint8_t>(message * 31 + at * 7 + (at >> 8));
}

/// One process with a device, and memory for all messages.
class Party {
 public:
  explicit Party(Board& board) : board_(board), octets_(kMessages * kMessageOctets) {}

  bool open() {
    ibv_device** list = ibv_get_device_list(nullptr);
    if (list == nullptr || list[0] == nullptr) return false;
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    if (context_ == nullptr) return false;
    pd_ = ibv_alloc_pd(context_);
    constexpr int kLocalWrite = IBV_ACCESS_LOCAL_WRITE;
    mr_ = ibv_reg_mr(pd_, octets_.data(), octets_.size(), kLocalWrite);
    for (std::uint32_t i = 0; ibv_query_gid_ex(context_, 1, i, &gid_, 0) == 0; ++i) {
      if (gid_.gid.raw[10] == 0xff) break;
    }
    return mr_ != nullptr;
  }

  struct End {
    ibv_cq* cq = nullptr;
    ibv_qp* qp = nullptr;
  };
  End make(ibv_qp_type type) {
    End end;
    end.cq = ibv_create_cq(context_, 2 * kMessages, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = end.cq;
    init.cap = qp_capacity(kMessages, kMessages);
    init.qp_type = type;
    init.sq_sig_all = 1;
    end.qp = ibv_create_qp(pd_, &init);
    return end;
  }
  bool connect(ibv_qp* qp, std::uint32_t peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    if (ibv_modify_qp(qp, &attr, mask) != 0) return false;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = gid_.gid;
    attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_.gid_index);
    const bool is_reliable = qp->qp_type == IBV_QPT_RC;
    mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (is_reliable) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if (ibv_modify_qp(qp, &attr, mask) != 0) return false;
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 18;
    attr.retry_cnt = attr.rnr_retry = 7;
    mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (is_reliable) {
      mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    return ibv_modify_qp(qp, &attr, mask) == 0;
  }
  bool post_receive(ibv_qp* qp, std::uint32_t message, std::uint32_t octets = kMessageOctets) {
    ibv_sge sge = place(message, octets);
    ibv_recv_wr wr{.wr_id = message, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp, &wr, &bad) == 0;
  }
  bool post_send(ibv_qp* qp, std::uint32_t message, std::uint32_t octets = kMessageOctets) {
    ibv_sge sge = place(message, octets);
    ibv_send_wr wr{};
    wr.wr_id = message;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad) == 0;
  }
  std::uint8_t* message(std::uint32_t number) { return octets_.data() + number * kMessageOctets; }

 protected:
  Board& board_;

 private:
  ibv_sge place(std::uint32_t number, std::uint32_t octets) {
    return {.addr = reinterpret_cast<std::uintptr_t>(message(number)),
            .length = octets,
            .lkey = mr_->lkey};
  }
  std::vector<std::uint8_t> octets_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_gid_entry gid_{};
};

class ReceiverParty : public Party {
 public:
  using Party::Party;
  bool run() {
    if (!open()) return false;
    const End end = make(IBV_QPT_UC);
    if (end.qp == nullptr) return false;
    shrink_receive_buffers();
    board_.receiver_qp.store(end.qp->qp_num);
    if (!wait_for([&] { return board_.sender_qp.load() != 0; })) return false;
    if (!connect(end.qp, board_.sender_qp.load())) return false;
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      if (!post_receive(end.qp, i)) return false;
    }
    board_.is_receiver_ready.store(true);
    return wait_for([&] {
      for (ibv_wc wc; ibv_poll_cq(end.cq, 1, &wc) == 1;) {
        if (wc.status == IBV_WC_SUCCESS && is_right(wc)) board_.received.fetch_add(1);
      }
      return board_.may_end.load();
    });
  }

 private:
  bool is_right(const ibv_wc& wc) {
    const auto number = static_cast<std::uint32_t>(wc.wr_id);
    for (std::uint32_t i = 0; i < kMessageOctets; ++i) {
      if (message(number)[i] != octet(number, i)) return false;
    }
    return wc.byte_len == kMessageOctets;
  }
};

class SenderParty : public Party {
 public:
  using Party::Party;
  bool run() {
    if (!open()) return false;
    const End end = make(IBV_QPT_UC);
    const End beside = make(IBV_QPT_RC);
    if (end.qp == nullptr || beside.qp == nullptr) return false;
    board_.sender_qp.store(end.qp->qp_num);
    if (!wait_for([&] { return board_.receiver_qp.load() != 0; })) return false;
    if (!connect(end.qp, board_.receiver_qp.load())) return false;
    if (!connect(beside.qp, beside.qp->qp_num)) return false;
    for (std::uint32_t number = 0; number < kMessages; ++number) {
      for (std::uint32_t i = 0; i < kMessageOctets; ++i) message(number)[i] = octet(number, i);
    }
    if (!wait_for([&] { return board_.may_send.load(); })) return false;
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      if (!post_send(end.qp, i)) return false;
    }
    return talk_to_itself(beside) && wait_for([&] {
             for (ibv_wc wc; ibv_poll_cq(end.cq, 1, &wc) == 1;) {
               if (wc.status == IBV_WC_SUCCESS) board_.completed.fetch_add(1);
             }
             return board_.may_end.load();
           });
  }

 private:
  bool talk_to_itself(const End& beside) {
    if (!post_receive(beside.qp, 0, 1) || !post_send(beside.qp, 0, 1)) return false;
    std::uint32_t found = 0;
    return wait_for([&] {
      ibv_wc wc;
      while (ibv_poll_cq(beside.cq, 1, &wc) == 1) found += wc.status == IBV_WC_SUCCESS;
      if (found == 2) board_.done_beside.store(1);
      return found == 2;
    });
  }
};

class Backpressure : public ::testing::Test {
 protected:
  void SetUp() override {
    void* memory =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    board = new (memory) Board;
    receiver = start<ReceiverParty>();
    sender = start<SenderParty>();
    ASSERT_TRUE(wait_for([&] { return board->is_receiver_ready.load(); }));
  }
  void TearDown() override {
    for (const pid_t pid : {receiver, sender}) {
      if (pid <= 0) continue;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    ::munmap(board, sizeof(Board));
  }
  /// As an ordinary user where possible, whose receive buffer is small.
  template <typename Kind>
  pid_t start() {
    std::fflush(nullptr);
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    ::_exit(Kind(*board).run() ? 0 : 1);
  }
  void expect_good_ends() {
    board->may_end.store(true);
    for (pid_t* pid : {&receiver, &sender}) {
      int status = -1;
      EXPECT_EQ(::waitpid(*pid, &status, 0), *pid);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
      *pid = 0;
    }
  }
  static void pause_for(milliseconds time) {
    (void)::poll(nullptr, 0, static_cast<int>(time.count()));
  }

  Board* board = nullptr;
  pid_t receiver = 0;
  pid_t sender = 0;
};

TEST_F(Backpressure, AReceiverThatIsStoppedForAMomentLosesNothing) {
  ASSERT_EQ(::kill(receiver, SIGSTOP), 0);
  board->may_send.store(true);
  pause_for(milliseconds(50));
  ASSERT_EQ(::kill(receiver, SIGCONT), 0);
  EXPECT_TRUE(wait_for([&] { return board->received.load() == kMessages; }))
      << board->received.load() << " arrived";
  expect_good_ends();
}

TEST_F(Backpressure, AStoppedReceiverDelaysOnlyItsOwnSendersAndNotForEver) {
  ASSERT_EQ(::kill(receiver, SIGSTOP), 0);
  board->may_send.store(true);
  EXPECT_TRUE(wait_for([&] { return board->done_beside.load() == 1; }));
  EXPECT_TRUE(wait_for([&] { return board->completed.load() == kMessages; }))
      << board->completed.load() << " were sent";
  ASSERT_EQ(::kill(receiver, SIGCONT), 0);
  expect_good_ends();
}

}  // namespace
}  // namespace verbatim::testing
