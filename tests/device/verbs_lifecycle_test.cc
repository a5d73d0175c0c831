// SPDX-License-Identifier: Apache-2.0
// Objects that a program makes, uses and destroys in any order, or destroys twice or never; limits
// of objects; processes that fork.
#include <linux/membarrier.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "qp_capacity.h"
#include "world.h"

namespace verbatim::testing {
namespace {

class VerbsLifecycle : public Pair {};

// ---- Opening ----

// This test comes first: no later code has registered the process then.
TEST_F(VerbsLifecycle, OpeningRegistersForBarriersSoThatTrafficNeedNotWaitForIt) {
  constexpr int kGetRegistrations = 1 << 9;  // since Linux 6.3
  const long registered = ::syscall(SYS_membarrier, kGetRegistrations, 0, 0);
  if (registered < 0) GTEST_SKIP() << "the system does not tell";
#if VB_THREAD_SANITIZER
  GTEST_SKIP() << "the thread sanitizer sees no barriers, so nothing relies on them";
#endif
  EXPECT_TRUE((registered & MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0);
  EXPECT_TRUE((registered & MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) != 0);
}

// ---- Destroying ----

TEST_F(VerbsLifecycle, WhatIsInUseCannotBeDestroyed) {
  ibv_comp_channel* channel = make_channel();
  ibv_cq* cq = make_cq(16, channel);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = keep(srqs, ibv_create_srq(pd, &init));
  make_qp({.send_cq = cq, .srq = srq});
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
}

TEST_F(VerbsLifecycle, ADomainIsBusyWithEachKindOfUser) {
  const auto is_busy = [&](ibv_pd* domain) { return ibv_dealloc_pd(domain) == EBUSY; };
  ibv_pd* one = ibv_alloc_pd(context);
  std::uint64_t memory = 0;
  ibv_mr* mr = ibv_reg_mr(one, &memory, sizeof memory, static_cast<int>(IBV_ACCESS_LOCAL_WRITE));
  ASSERT_NE(mr, nullptr);
  EXPECT_TRUE(is_busy(one));
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  ibv_mw* mw = ibv_alloc_mw(one, IBV_MW_TYPE_1);
  ASSERT_NE(mw, nullptr);
  EXPECT_TRUE(is_busy(one));
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  ibv_ah_attr address = local_address();
  ibv_ah* ah = ibv_create_ah(one, &address);
  ASSERT_NE(ah, nullptr);
  EXPECT_TRUE(is_busy(one));
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  EXPECT_EQ(ibv_dealloc_pd(one), 0);
}

TEST_F(VerbsLifecycle, DestroyingTwiceIsRefused) {
  ibv_pd* one = ibv_alloc_pd(context);
  EXPECT_EQ(ibv_dealloc_pd(one), 0);
  EXPECT_EQ(ibv_dealloc_pd(one), EINVAL);
  ibv_cq* cq = ibv_create_cq(context, 1, nullptr, nullptr, 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), EINVAL);
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), EINVAL);
  join();
  forget(qps, near);
  EXPECT_EQ(ibv_destroy_qp(near), 0);
  EXPECT_EQ(ibv_destroy_qp(near), EINVAL);
  Buffer& buffer = make_buffer(64);
  forget(mrs, buffer.mr);
  EXPECT_EQ(ibv_dereg_mr(buffer.mr), 0);
  EXPECT_EQ(ibv_dereg_mr(buffer.mr), EINVAL);
}

/// While it exists, a field of an object has another value.
template <typename Field>
class Altered {
 public:
  Altered(Field& field, Field value) : field_(field), original_(field) { field = value; }
  Altered(const Altered&) = delete;
  Altered& operator=(const Altered&) = delete;
  ~Altered() { field_ = original_; }

 private:
  Field& field_;
  Field original_;
};

// The objects stay: TearDown() destroys each of them.
TEST_F(VerbsLifecycle, AnObjectThatCarriesAnotherNumberIsUnknown) {
  join();
  Buffer& buffer = make_buffer(64);
  ibv_mw* mw = keep(windows, ibv_alloc_mw(pd, IBV_MW_TYPE_2));
  ibv_ah_attr address = local_address();
  ibv_ah* ah = keep(ahs, ibv_create_ah(pd, &address));
  ibv_srq_init_attr srq_init{};
  srq_init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = keep(srqs, ibv_create_srq(pd, &srq_init));
  ibv_cq* cq = make_cq();
  ibv_pd* domain = keep(pds, ibv_alloc_pd(context));
  const auto is_unknown = [](auto* object, int (*call)(decltype(object))) {
    const Altered number(object->handle, object->handle ^ 0xdead'beef);
    errno = 0;
    return call(object) == ENOENT && errno == ENOENT;
  };
  EXPECT_TRUE(is_unknown(near, ibv_destroy_qp));
  EXPECT_TRUE(is_unknown(srq, ibv_destroy_srq));
  EXPECT_TRUE(is_unknown(mw, [](ibv_mw* window) { return ibv_dealloc_mw(window); }));
  EXPECT_TRUE(is_unknown(buffer.mr, ibv_dereg_mr));
  EXPECT_TRUE(is_unknown(ah, ibv_destroy_ah));
  EXPECT_TRUE(is_unknown(cq, ibv_destroy_cq));
  EXPECT_TRUE(is_unknown(domain, ibv_dealloc_pd));
  EXPECT_TRUE(is_unknown(cq, [](ibv_cq* queue) { return ibv_resize_cq(queue, 128); }));
  EXPECT_TRUE(is_unknown(near, [](ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
  }));
  EXPECT_TRUE(is_unknown(near, [](ibv_qp* qp) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
  }));
  EXPECT_TRUE(is_unknown(srq, [](ibv_srq* queue) {
    ibv_srq_attr attr{.max_wr = 0, .max_sge = 0, .srq_limit = 1};
    return ibv_modify_srq(queue, &attr, IBV_SRQ_LIMIT);
  }));
  EXPECT_TRUE(is_unknown(srq, [](ibv_srq* queue) {
    ibv_srq_attr attr{};
    return ibv_query_srq(queue, &attr);
  }));
}

TEST_F(VerbsLifecycle, NothingIsMadeOfAnObjectThatCarriesAnotherNumber) {
  ibv_srq_init_attr srq_init{};
  srq_init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = keep(srqs, ibv_create_srq(pd, &srq_init));
  ibv_cq* cq = make_cq();
  ibv_cq* other = make_cq();
  ibv_qp_init_attr init{};
  init.send_cq = cq;
  init.recv_cq = other;
  init.srq = srq;
  init.cap = qp_capacity(1, 1);
  init.qp_type = IBV_QPT_RC;
  for (std::uint32_t* number : {&cq->handle, &other->handle, &srq->handle, &pd->handle}) {
    const Altered altered(*number, *number + 1);
    errno = 0;
    EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
    EXPECT_EQ(errno, ENOENT);
  }
  const Altered altered(pd->handle, pd->handle + 1);
  std::uint64_t memory = 0;
  ibv_ah_attr address = local_address();
  EXPECT_EQ(ibv_reg_mr(pd, &memory, sizeof memory, static_cast<int>(IBV_ACCESS_LOCAL_WRITE)),
            nullptr);
  EXPECT_EQ(ibv_alloc_mw(pd, IBV_MW_TYPE_1), nullptr);
  EXPECT_EQ(ibv_create_ah(pd, &address), nullptr);
  EXPECT_EQ(ibv_create_srq(pd, &srq_init), nullptr);
}

TEST_F(VerbsLifecycle, AnotherContextDoesNotKnowAnObject) {
  ibv_context* second = ibv_open_device(device);
  ASSERT_NE(second, nullptr);
  ibv_pd* domain = keep(pds, ibv_alloc_pd(context));
  {
    const Altered altered(domain->context, second);
    EXPECT_EQ(ibv_dealloc_pd(domain), ENOENT);
  }
  // A region stays in its context, too.
  Buffer& buffer = make_buffer(64);
  ibv_pd* strange = ibv_alloc_pd(second);
  ASSERT_NE(strange, nullptr);
  EXPECT_EQ(ibv_rereg_mr(buffer.mr, IBV_REREG_MR_CHANGE_PD, strange, nullptr, 0, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(buffer.mr->pd, pd);
  EXPECT_EQ(ibv_dealloc_pd(strange), 0);
  EXPECT_EQ(ibv_close_device(second), 0);
}

TEST_F(VerbsLifecycle, ARegionWithAWindowInItCannotGo) {
  join();
  ibv_mw* mw = keep(windows, ibv_alloc_mw(pd, IBV_MW_TYPE_1));
  Buffer& buffer = make_buffer(64, kAllAccess | IBV_ACCESS_MW_BIND);
  ibv_mw_bind bind{};
  bind.wr_id = 1;
  bind.bind_info = {.mr = buffer.mr,
                    .addr = buffer.address(),
                    .length = 64,
                    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  ASSERT_EQ(ibv_bind_mw(near, mw, &bind), 0);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(buffer.mr), EBUSY);
}

TEST_F(VerbsLifecycle, QueuePairsMayGoWithWorkUnderWay) {
  Buffer& buffer = make_buffer(20'000);
  for (int round = 0; round < 20; ++round) {
    join({.timeout = 14, .rnr_retry = 7});
    for (std::uint64_t i = 0; i < 8; ++i) {
      ASSERT_EQ(receive(far, i, buffer.sge()), 0);
      ASSERT_EQ(send(near, i, buffer.sge()), 0);
      ASSERT_EQ(rdma(far, i, IBV_WR_RDMA_READ, buffer.sge(), buffer.address(), buffer.mr->rkey), 0);
    }
    ibv_qp* first = round % 2 == 0 ? near : far;
    forget(qps, first);
    EXPECT_EQ(ibv_destroy_qp(first), 0);
  }
}

TEST_F(VerbsLifecycle, CompletionsOfADestroyedQueuePairDoNotPointAnywhere) {
  join();
  Buffer& buffer = make_buffer(64);
  ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE, buffer.sge(), buffer.address(), buffer.mr->rkey), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  forget(qps, near);
  ASSERT_EQ(ibv_destroy_qp(near), 0);
  ibv_wc wc[4];
  const int polled = ibv_poll_cq(near_sends, 4, wc);
  EXPECT_GE(polled, 0);
  EXPECT_LE(polled, 1);
}

TEST_F(VerbsLifecycle, ADeviceMayBeClosedWithObjectsLeft) {
  ibv_context* other = ibv_open_device(device);
  ASSERT_NE(other, nullptr);
  ibv_pd* left = ibv_alloc_pd(other);
  ASSERT_NE(left, nullptr);
  EXPECT_NE(ibv_create_cq(other, 4, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(ibv_close_device(other), 0);
  EXPECT_EQ(ibv_close_device(other), EINVAL);
  EXPECT_EQ(ibv_dealloc_pd(left), 0);  // late, and harmless
}

TEST_F(VerbsLifecycle, ContextsOfOneDeviceStandSideBySide) {
  ibv_context* other = ibv_open_device(device);
  ASSERT_NE(other, nullptr);
  EXPECT_NE(other, context);
  EXPECT_NE(other->async_fd, context->async_fd);
  EXPECT_NE(other->cmd_fd, context->cmd_fd);
  EXPECT_EQ(ibv_close_device(other), 0);
}

TEST_F(VerbsLifecycle, DevicesKeepTheirPointers) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_EQ(count, 1);
  EXPECT_EQ(list[0], device);
  EXPECT_EQ(list[1], nullptr);
  ibv_free_device_list(list);
}

// ---- Fork ----

class VerbsFork : public Pair {
 protected:
  /// Runs `body` in a child; its result is the child's exit code.
  template <typename Body>
  static void in_child(Body&& body) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(body());
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  void exchange() {
    Buffer& from = make_buffer(10'000);
    Buffer& to = make_buffer(10'000);
    std::ranges::fill(to.octets, std::uint8_t{0});
    ASSERT_EQ(receive(far, 50, to.sge()), 0);
    ASSERT_EQ(send(near, 1, from.sge()), 0);
    EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
    EXPECT_EQ(collect_one(far_receives).status, IBV_WC_SUCCESS);
    EXPECT_EQ(to.octets, from.octets);
  }
};

TEST_F(VerbsFork, AChildThatExitsLeavesTheParentAlone) {
  ASSERT_EQ(ibv_fork_init(), 0);
  join();
  exchange();
  in_child([] { return 0; });
  exchange();
}

TEST_F(VerbsFork, AChildMayOpenADeviceOfItsOwn) {
  join();
  exchange();
  in_child([] {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    if (list == nullptr || count != 1) return 1;
    ibv_context* own = ibv_open_device(list[0]);
    if (own == nullptr) return 2;
    ibv_pd* domain = ibv_alloc_pd(own);
    if (domain == nullptr) return 3;
    if (ibv_dealloc_pd(domain) != 0) return 4;
    return ibv_close_device(own) == 0 ? 0 : 5;
  });
  exchange();
}

TEST_F(VerbsFork, AChildMayDestroyWhatItInherited) {
  join();
  exchange();
  in_child([this] {
    for (ibv_qp* qp : qps) {
      if (ibv_destroy_qp(qp) != 0) return 1;
    }
    for (ibv_mr* mr : mrs) {
      if (ibv_dereg_mr(mr) != 0) return 2;
    }
    for (ibv_cq* cq : cqs) {
      if (ibv_destroy_cq(cq) != 0) return 3;
    }
    if (ibv_dealloc_pd(pd) != 0) return 4;
    return ibv_close_device(context) == 0 ? 0 : 5;
  });
  exchange();
}

TEST_F(VerbsFork, AChildsWorkOnInheritedObjectsDoesNotHarmTheParent) {
  join();
  exchange();
  in_child([this] {
    std::uint64_t memory = 0;
    ibv_sge sge{
        .addr = reinterpret_cast<std::uintptr_t>(&memory), .length = 8, .lkey = mrs[0]->lkey};
    (void)send(near, 9, sge);
    ibv_wc wc;
    (void)ibv_poll_cq(near_sends, 1, &wc);
    return 0;
  });
  exchange();
}

TEST_F(VerbsFork, ForksWhileOthersWorkDoNotHang) {
  join({.timeout = 14, .retry_count = 7});
  Buffer& buffer = make_buffer(4096);
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    while (!stop.load()) {
      ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE, buffer.sge(), buffer.address(), buffer.mr->rkey),
                0);
      ASSERT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
    }
  });
  for (int i = 0; i < 10; ++i) {
    in_child([] {
      int count = 0;
      ibv_device** list = ibv_get_device_list(&count);
      ibv_context* own = list == nullptr ? nullptr : ibv_open_device(list[0]);
      return own != nullptr && ibv_close_device(own) == 0 ? 0 : 1;
    });
  }
  stop = true;
  worker.join();
}

// ---- Limits and refusals ----

TEST_F(VerbsLifecycle, FullQueuesAreENOMEM) {
  join({.timeout = 0, .rnr_retry = 7, .min_rnr_timer = 31}, {.min_rnr_timer = 31});
  Buffer& buffer = make_buffer(8);
  int sends = 0;
  int result = 0;
  while ((result = send(near, 1, buffer.sge())) == 0) ASSERT_LT(++sends, 10'000);
  EXPECT_EQ(result, ENOMEM);
  EXPECT_GE(sends, 16);
  int receives = 0;
  while ((result = receive(near, 1, buffer.sge())) == 0) ASSERT_LT(++receives, 10'000);
  EXPECT_EQ(result, ENOMEM);
  EXPECT_GE(receives, 16);
}

TEST_F(VerbsLifecycle, AListStopsAtTheFirstRequestThatIsRefused) {
  join();
  Buffer& buffer = make_buffer(8);
  ibv_sge sge = buffer.sge();
  ibv_send_wr wr[3]{};
  for (std::size_t i = 0; i < 3; ++i) {
    wr[i].wr_id = i;
    wr[i].opcode = IBV_WR_RDMA_WRITE;
    wr[i].wr.rdma.remote_addr = buffer.address();
    wr[i].wr.rdma.rkey = buffer.mr->rkey;
    wr[i].sg_list = &sge;
    wr[i].num_sge = 1;
    wr[i].next = i < 2 ? &wr[i + 1] : nullptr;
  }
  wr[1].num_sge = 1000;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(near, wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr[1]);
  EXPECT_EQ(collect_one(near_sends).wr_id, 0U);
  wr[1].num_sge = -1;
  EXPECT_EQ(ibv_post_send(near, &wr[1], &bad), EINVAL);
  wr[1].num_sge = 1;
  wr[1].opcode = IBV_WR_TSO;
  EXPECT_EQ(ibv_post_send(near, &wr[1], &bad), EINVAL);
  EXPECT_TRUE(is_empty(near_sends));
  ibv_recv_wr receive_wr{.wr_id = 1, .next = nullptr, .sg_list = &sge, .num_sge = -1};
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(near, &receive_wr, &bad_receive), EINVAL);
  EXPECT_EQ(bad_receive, &receive_wr);
  receive_wr.num_sge = 1000;
  EXPECT_EQ(ibv_post_recv(near, &receive_wr, &bad_receive), EINVAL);
}

TEST_F(VerbsLifecycle, PostingNeedsTheRightState) {
  ibv_cq* cq = make_cq();
  ibv_qp* qp = make_qp({.send_cq = cq});
  ibv_qp* peer = make_qp({.send_cq = cq});
  Buffer& buffer = make_buffer(8);
  EXPECT_EQ(send(qp, 1, buffer.sge()), EINVAL);
  EXPECT_EQ(receive(qp, 1, buffer.sge()), EINVAL);
  ASSERT_EQ(to_init(qp), 0);
  EXPECT_EQ(send(qp, 1, buffer.sge()), EINVAL);
  EXPECT_EQ(receive(qp, 1, buffer.sge()), 0);
  ASSERT_EQ(to_rtr(qp, peer->qp_num), 0);
  EXPECT_EQ(send(qp, 1, buffer.sge()), EINVAL);
  EXPECT_EQ(receive(qp, 2, buffer.sge()), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  EXPECT_TRUE(is_empty(cq));  // a reset discards without completions
  EXPECT_EQ(receive(qp, 1, buffer.sge()), EINVAL);
}

TEST_F(VerbsLifecycle, TransitionsAreChecked) {
  ibv_cq* cq = make_cq();
  ibv_qp* qp = make_qp({.send_cq = cq});
  EXPECT_EQ(to_rts(qp), EINVAL);
  EXPECT_EQ(to_rtr(qp, 5), EINVAL);
  ASSERT_EQ(to_init(qp), 0);
  EXPECT_EQ(qp->state, IBV_QPS_INIT);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);  // attributes missing
  EXPECT_EQ(state_of(qp), IBV_QPS_INIT);
  attr.port_num = 2;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_PORT), EINVAL);
}

TEST_F(VerbsLifecycle, NonsenseIsRefused) {
  errno = 0;
  EXPECT_EQ(ibv_create_cq(context, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(ibv_create_cq(context, 16, nullptr, nullptr, 99), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(ibv_create_cq(context, 1 << 30, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  std::uint64_t memory = 0;
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(pd, &memory, 8, static_cast<int>(IBV_ACCESS_REMOTE_WRITE)),
            nullptr);  // without local write
  EXPECT_EQ(errno, EINVAL);
  ibv_cq* cq = make_cq();
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = 1U << 30;
  errno = 0;
  EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init.cap.max_send_wr = 1;
  init.cap.max_inline_data = 1U << 20;
  errno = 0;
  EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_port_attr port;
  EXPECT_EQ(ibv_query_port(context, 2, &port), EINVAL);
  union ibv_gid gid;
  EXPECT_NE(ibv_query_gid(context, 1, 1000, &gid), 0);
  EXPECT_NE(ibv_query_gid(context, 1, -1, &gid), 0);
  __be16 pkey;
  EXPECT_NE(ibv_query_pkey(context, 1, 1, &pkey), 0);
}

TEST_F(VerbsLifecycle, AnEmptyQueueHasNoCapacityButIsAQueuePair) {
  ibv_cq* cq = make_cq();
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = keep(qps, ibv_create_qp(pd, &init));
  ASSERT_NE(qp, nullptr);
  ASSERT_EQ(to_init(qp), 0);
  Buffer& buffer = make_buffer(8);
  EXPECT_EQ(receive(qp, 1, buffer.sge()) == 0, init.cap.max_recv_wr > 0);
}

TEST_F(VerbsLifecycle, ACompletionQueueResizesDownToWhatItHolds) {
  join();
  Buffer& buffer = make_buffer(8);
  for (std::uint64_t i = 0; i < 6; ++i) {
    ASSERT_EQ(rdma(near, i, IBV_WR_RDMA_WRITE, buffer.sge(), buffer.address(), buffer.mr->rkey), 0);
  }
  // The last one's arrival is seen through another queue.
  ASSERT_EQ(receive(far, 50, buffer.sge()), 0);
  ASSERT_EQ(send(near, 6, buffer.sge()), 0);
  EXPECT_EQ(collect_one(far_receives).status, IBV_WC_SUCCESS);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_NE(ibv_resize_cq(near_sends, 1), 0);
  EXPECT_EQ(near_sends->cqe, 64);
  EXPECT_EQ(ibv_resize_cq(near_sends, 128), 0);
  EXPECT_GE(near_sends->cqe, 128);
  EXPECT_NE(ibv_resize_cq(near_sends, 0), 0);
  EXPECT_NE(ibv_resize_cq(near_sends, 1 << 30), 0);
  EXPECT_EQ(collect(near_sends, 7)[6].wr_id, 6U);
  EXPECT_EQ(ibv_resize_cq(near_sends, 16), 0);
}

}  // namespace
}  // namespace verbatim::testing
