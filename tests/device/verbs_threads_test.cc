// SPDX-License-Identifier: Apache-2.0
// Threads on the same objects and on different ones; its point is what the thread sanitizer sees.
#include <thread>

#include "world.h"

namespace verbatim::testing {
namespace {

class VerbsThreads : public Pair {};
constexpr int kThreads = 4;
constexpr int kRounds = 100;

TEST_F(VerbsThreads, PostAndPollTheSameQueuePair) {
  join({.timeout = 14, .retry_count = 7}, {}, {.depth = 64});
  Buffer& from = make_buffer(2000);
  Buffer& to = make_buffer(2000);
  std::atomic<int> posted{0};
  std::atomic<int> completed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const auto end = std::chrono::steady_clock::now() + kPatience;
      while (completed.load() < kThreads * kRounds && std::chrono::steady_clock::now() < end) {
        if (posted.load() < kThreads * kRounds && posted.fetch_add(1) < kThreads * kRounds) {
          while (rdma(near, 1, IBV_WR_RDMA_WRITE, from.sge(), to.address(), to.mr->rkey) != 0) {
            ibv_wc wc;
            completed += ibv_poll_cq(near_sends, 1, &wc);
          }
        }
        ibv_wc wc[4];
        completed += ibv_poll_cq(near_sends, 4, wc);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(completed.load(), kThreads * kRounds);
  EXPECT_EQ(state_of(near), IBV_QPS_RTS);
}

TEST_F(VerbsThreads, MakeUseAndDestroyTheirOwn) {
  std::vector<std::thread> threads;
  std::atomic<int> succeeded{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        ibv_pd* domain = ibv_alloc_pd(context);
        ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
        ibv_qp_init_attr init{};
        init.send_cq = init.recv_cq = cq;
        init.cap = {.max_send_wr = 4,
                    .max_recv_wr = 4,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
        init.qp_type = IBV_QPT_RC;
        init.sq_sig_all = 1;
        ibv_qp* one = ibv_create_qp(domain, &init);
        ibv_qp* other = ibv_create_qp(domain, &init);
        std::vector<std::uint8_t> memory(4000);
        ibv_mr* mr = ibv_reg_mr(domain, memory.data(), memory.size(), kAllAccess);
        connect(one, other, {.timeout = 14, .retry_count = 7});
        const ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(memory.data()),
                          .length = 2000,
                          .lkey = mr->lkey};
        if (rdma(one, 1, IBV_WR_RDMA_WRITE, sge, sge.addr + 2000, mr->rkey) == 0 &&
            collect_one(cq).status == IBV_WC_SUCCESS) {
          ++succeeded;
        }
        EXPECT_EQ(ibv_destroy_qp(one), 0);
        EXPECT_EQ(ibv_destroy_qp(other), 0);
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
        EXPECT_EQ(ibv_destroy_cq(cq), 0);
        EXPECT_EQ(ibv_dealloc_pd(domain), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(succeeded.load(), kThreads * 10);
}

TEST_F(VerbsThreads, OneWaitsForWhatAnotherSends) {
  ibv_comp_channel* channel = make_channel();
  near_sends = make_cq();
  far_receives = make_cq(64, channel);
  near = make_qp({.send_cq = near_sends});
  far = make_qp({.send_cq = near_sends, .receive_cq = far_receives, .depth = 32});
  connect(near, far, {.timeout = 14, .retry_count = 7, .rnr_retry = 7});
  Buffer& from = make_buffer(100);
  Buffer& to = make_buffer(100);
  ASSERT_EQ(ibv_req_notify_cq(far_receives, 0), 0);
  std::thread waiter([&] {
    int arrived = 0;
    for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(receive(far, i, to.sge()), 0);
    while (arrived < kRounds) {
      ibv_cq* cq = nullptr;
      void* tag = nullptr;
      ASSERT_EQ(ibv_get_cq_event(channel, &cq, &tag), 0);
      ibv_ack_cq_events(cq, 1);
      ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
      ibv_wc wc;
      while (ibv_poll_cq(cq, 1, &wc) == 1) {
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
        ++arrived;
        ASSERT_EQ(receive(far, 1, to.sge()), 0);
      }
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_EQ(send(near, 1, from.sge()), 0);
    ASSERT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
  }
  waiter.join();
}

}  // namespace
}  // namespace verbatim::testing
