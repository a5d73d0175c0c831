// SPDX-License-Identifier: Apache-2.0
// One-sided is one-sided: on one host a target that is stopped takes requests all the same.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace verbatim::testing {
namespace {

constexpr std::uint32_t kOctets = 64 * 1024;
constexpr auto kPatience = std::chrono::seconds(30);

/// What the two processes tell each other.
struct Notes {
  struct End {
    std::atomic<bool> is_ready{false};
    std::uint32_t number = 0;
    std::uint32_t rkey = 0;
    std::uint64_t address = 0;
  };
  End ends[2];
  std::atomic<bool> is_connected{false};
  std::atomic<bool> is_over{false};
};

bool await(const std::atomic<bool>& flag) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!flag && std::chrono::steady_clock::now() < end) ::usleep(100);
  return flag;
}

/// One end of a reliable connection, with a buffer that the other may use as it likes.
struct End {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  std::byte* buffer = nullptr;

  bool open() {
    ibv_device** list = ibv_get_device_list(nullptr);
    if (list == nullptr || list[0] == nullptr) return false;
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    if (context == nullptr) return false;
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
    buffer = static_cast<std::byte*>(std::aligned_alloc(4096, kOctets));
    std::memset(buffer, 0, kOctets);
    constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                         IBV_ACCESS_REMOTE_ATOMIC;
    mr = ibv_reg_mr(pd, buffer, kOctets, kAll);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {.max_send_wr = 16,
                .max_recv_wr = 16,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    init.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(pd, &init);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAll;
    return mr != nullptr && qp != nullptr &&
           ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0;
  }

  void tell(Notes::End& end) const {
    end.number = qp->qp_num;
    end.rkey = mr->rkey;
    end.address = reinterpret_cast<std::uintptr_t>(buffer);
    end.is_ready = true;
  }

  bool connect(std::uint32_t to) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = to;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.hop_limit = 64;
    if (ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid) != 0) return false;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
      return false;
    }
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
  }

  bool receive() {
    ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(buffer) + kOctets / 2,
                .length = kOctets / 2,
                .lkey = mr->lkey};
    ibv_recv_wr request{};
    request.wr_id = 7;
    request.sg_list = &sge;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp, &request, &bad) == 0;
  }

  /// Posts `octets` of the buffer's beginning and waits; the status, or -1 when nothing came.
  int run(ibv_wr_opcode opcode, const Notes::End& to, std::uint32_t octets) {
    ibv_sge sge{
        .addr = reinterpret_cast<std::uintptr_t>(buffer), .length = octets, .lkey = mr->lkey};
    ibv_send_wr request{};
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &sge;
    request.num_sge = 1;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.wr.atomic = {.remote_addr = to.address, .compare_add = 1, .swap = 0, .rkey = to.rkey};
    } else {
      request.wr.rdma = {.remote_addr = to.address, .rkey = to.rkey};
    }
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp, &request, &bad) != 0) return -2;
    ibv_wc wc{};
    return collect(wc) ? static_cast<int>(wc.status) : -1;
  }

  bool collect(ibv_wc& wc) const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
      if (ibv_poll_cq(cq, 1, &wc) == 1) return true;
    }
    return false;
  }
};

/// The target: connects, posts a receive, and does nothing until it is over. Then it looks.
int be_target(Notes& notes) {
  End end;
  if (!end.open()) return 1;
  end.tell(notes.ends[1]);
  if (!await(notes.ends[0].is_ready) || !end.connect(notes.ends[0].number)) return 2;
  if (!end.receive()) return 3;
  notes.is_connected = true;
  if (!await(notes.is_over)) return 4;
  ibv_wc wc{};
  if (!end.collect(wc) || wc.wr_id != 7 || wc.byte_len != 1000) return 5;
  std::uint64_t counter = 0;
  std::memcpy(&counter, end.buffer, sizeof counter);
  if (counter != 0x0101'0101'0101'0102) return 6;  // what was written, and one added
  return end.buffer[kOctets / 2 + 999] == std::byte{1} ? 0 : 7;
}

TEST(StoppedPeer, TakesWritesReadsAtomicsAndSends) {
  const char* path = std::getenv("VERBATIM_PATH");
  if (path != nullptr && std::strcmp(path, "packet") == 0) GTEST_SKIP() << "packets need its CPU";
  void* shared =
      ::mmap(nullptr, sizeof(Notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  Notes& notes = *new (shared) Notes;
  const pid_t target = ::fork();
  if (target == 0) ::_exit(be_target(notes));
  End end;
  ASSERT_TRUE(end.open());
  std::memset(end.buffer, 1, kOctets);
  end.tell(notes.ends[0]);
  ASSERT_TRUE(await(notes.ends[1].is_ready));
  ASSERT_TRUE(end.connect(notes.ends[1].number));
  ASSERT_TRUE(await(notes.is_connected));
  // The first request decides the way, and the target's engine takes note of it.
  ASSERT_EQ(end.run(IBV_WR_RDMA_WRITE, notes.ends[1], 8), IBV_WC_SUCCESS);
  ASSERT_EQ(::kill(target, SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(target, &status, WUNTRACED), target);
  EXPECT_EQ(end.run(IBV_WR_RDMA_WRITE, notes.ends[1], kOctets / 2), IBV_WC_SUCCESS);
  EXPECT_EQ(end.run(IBV_WR_SEND, notes.ends[1], 1000), IBV_WC_SUCCESS);
  EXPECT_EQ(end.run(IBV_WR_RDMA_READ, notes.ends[1], kOctets / 2), IBV_WC_SUCCESS);
  EXPECT_EQ(end.run(IBV_WR_ATOMIC_FETCH_AND_ADD, notes.ends[1], 8), IBV_WC_SUCCESS);
  std::uint64_t before = 0;
  std::memcpy(&before, end.buffer, sizeof before);
  EXPECT_EQ(before, 0x0101'0101'0101'0101U);
  ASSERT_EQ(::kill(target, SIGCONT), 0);
  notes.is_over = true;
  ASSERT_EQ(::waitpid(target, &status, 0), target);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
}

}  // namespace
}  // namespace verbatim::testing
