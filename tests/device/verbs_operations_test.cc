// SPDX-License-Identifier: Apache-2.0
// Every operation, events and channels, shared receives, datagrams, windows, and the
// extended interfaces.
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <string>
#include <thread>

#include "world.h"

namespace verbatim::testing {
namespace {

class VerbsOperations : public Pair {};
class VerbsEvents : public Pair {};

// ---- Operations ----

TEST_F(VerbsOperations, WritesReadsAndAtomicsMoveData) {
  join();
  Buffer& local = make_buffer(100'000);
  Buffer& remote = make_buffer(100'000);
  std::ranges::fill(remote.octets, std::uint8_t{0});
  ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE, local.sge(), remote.address(), remote.mr->rkey), 0);
  ibv_wc wc = collect_one(near_sends);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(remote.octets, local.octets);
  std::ranges::fill(local.octets, std::uint8_t{0});
  ASSERT_EQ(rdma(near, 2, IBV_WR_RDMA_READ, local.sge(), remote.address(), remote.mr->rkey), 0);
  wc = collect_one(near_sends);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(wc.byte_len, 100'000U);
  EXPECT_EQ(remote.octets, local.octets);
  const std::uint64_t before = 41;
  std::memcpy(remote.octets.data(), &before, 8);
  ibv_sge eight = local.sge();
  eight.length = 8;
  ASSERT_EQ(atomic(near, 3, eight, remote.address(), remote.mr->rkey, 1), 0);
  EXPECT_EQ(collect_one(near_sends).opcode, IBV_WC_FETCH_ADD);
  std::uint64_t was = 0;
  std::uint64_t now = 0;
  std::memcpy(&was, local.octets.data(), 8);
  std::memcpy(&now, remote.octets.data(), 8);
  EXPECT_EQ(was, 41U);
  EXPECT_EQ(now, 42U);
}

TEST_F(VerbsOperations, FewOctetsMayBeginAnywhere) {
  join();
  Buffer& local = make_buffer(64);
  Buffer& remote = make_buffer(64);
  for (std::uint32_t offset = 0; offset < 16; ++offset) {
    for (std::uint32_t octets = 1; octets <= 17; ++octets) {
      SCOPED_TRACE(std::to_string(octets) + " octets at " + std::to_string(offset));
      for (const bool writes : {true, false}) {
        std::ranges::fill(remote.octets, std::uint8_t{0xee});
        auto expected = remote.octets;
        std::copy_n(local.octets.begin() + 3, octets, expected.begin() + offset);
        const ibv_sge from{.addr = local.address() + 3, .length = octets, .lkey = local.mr->lkey};
        const ibv_sge into{
            .addr = remote.address() + offset, .length = octets, .lkey = remote.mr->lkey};
        if (writes) {
          ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE, from, into.addr, remote.mr->rkey), 0);
        } else {
          ASSERT_EQ(receive(far, 2, into), 0);
          ASSERT_EQ(send(near, 1, from), 0);
          ASSERT_EQ(collect_one(far_receives).status, IBV_WC_SUCCESS);
        }
        ASSERT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
        ASSERT_EQ(remote.octets, expected);
      }
    }
  }
}

TEST_F(VerbsOperations, AnImmediateTakesAReceive) {
  join();
  Buffer& local = make_buffer(64);
  Buffer& remote = make_buffer(64);
  ASSERT_EQ(receive(far, 50, remote.sge()), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.imm_data = 0x01020304;
  wr.wr.rdma.remote_addr = remote.address();
  wr.wr.rdma.rkey = remote.mr->rkey;
  ASSERT_EQ(post(near, wr, local.sge()), 0);
  const ibv_wc wc = collect_one(far_receives);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.imm_data, 0x01020304U);
  EXPECT_EQ(wc.byte_len, 64U);
  EXPECT_NE(wc.wc_flags & IBV_WC_WITH_IMM, 0U);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
}

TEST_F(VerbsOperations, InlineDataMayChangeAtOnce) {
  join({}, {}, {.inline_octets = 64});
  Buffer& to = make_buffer(64);
  ASSERT_EQ(receive(far, 50, to.sge()), 0);
  std::uint64_t value = 0x1122334455667788;
  const ibv_sge unregistered{
      .addr = reinterpret_cast<std::uintptr_t>(&value), .length = 8, .lkey = 0};
  ASSERT_EQ(send(near, 1, unregistered, IBV_SEND_INLINE), 0);
  value = 0;
  EXPECT_EQ(collect_one(far_receives).byte_len, 8U);
  std::uint64_t arrived = 0;
  std::memcpy(&arrived, to.octets.data(), 8);
  EXPECT_EQ(arrived, 0x1122334455667788U);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
}

TEST_F(VerbsOperations, DatagramsCarryTheirSender) {
  ibv_cq* cq = make_cq();
  ibv_qp* one = make_qp({.type = IBV_QPT_UD, .send_cq = cq});
  ibv_qp* other = make_qp({.type = IBV_QPT_UD, .send_cq = make_cq()});
  for (ibv_qp* qp : {one, other}) {
    ASSERT_EQ(to_init(qp), 0);
    ASSERT_EQ(to_rtr(qp, 0), 0);
    ASSERT_EQ(to_rts(qp), 0);
  }
  Buffer& from = make_buffer(100);
  Buffer& to = make_buffer(140);
  Buffer& back = make_buffer(140);
  ASSERT_EQ(receive(other, 50, to.sge()), 0);
  ASSERT_EQ(receive(one, 51, back.sge()), 0);
  ibv_ah_attr address = local_address();
  address.grh.traffic_class = 0x28;
  address.grh.hop_limit = 7;
  ibv_ah* ah = keep(ahs, ibv_create_ah(pd, &address));
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud = {.ah = ah, .remote_qpn = other->qp_num, .remote_qkey = kQKey};
  ASSERT_EQ(post(one, wr, from.sge()), 0);
  EXPECT_EQ(collect_one(cq).status, IBV_WC_SUCCESS);
  ibv_wc wc = collect_one(other->recv_cq);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.byte_len, 140U);
  EXPECT_EQ(wc.src_qp, one->qp_num);
  EXPECT_NE(wc.wc_flags & IBV_WC_GRH, 0U);
  EXPECT_TRUE(std::equal(from.octets.begin(), from.octets.end(), to.octets.begin() + 40));
  EXPECT_EQ(to.octets[20 + 1], 0x28) << "of the IPv4 header";
  EXPECT_EQ(to.octets[20 + 8], 7) << "of the IPv4 header";
  auto* grh = reinterpret_cast<ibv_grh*>(to.octets.data());
  ibv_ah* answer = keep(ahs, ibv_create_ah_from_wc(pd, &wc, grh, 1));
  ASSERT_NE(answer, nullptr);
  wr.wr.ud = {.ah = answer, .remote_qpn = wc.src_qp, .remote_qkey = kQKey};
  ASSERT_EQ(post(other, wr, from.sge()), 0);
  wc = collect_one(cq);
  EXPECT_EQ(wc.wr_id, 51U);
  EXPECT_EQ(wc.src_qp, other->qp_num);
  // A packet with a wrong Q_Key is dropped silently.
  ASSERT_EQ(receive(one, 52, back.sge()), 0);
  wr.wr.ud.remote_qkey = kQKey + 1;
  ASSERT_EQ(post(other, wr, from.sge()), 0);
  EXPECT_EQ(collect(other->send_cq, 2)[1].status, IBV_WC_SUCCESS);  // both answers left
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(is_empty(cq));
}

TEST_F(VerbsOperations, AWindowOpensARegionAndIsInvalidated) {
  join();
  // Type 1: bound by a call. The region itself grants nothing to peers.
  Buffer& local = make_buffer(64);
  Buffer& remote = make_buffer(64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ibv_mw* mw = keep(windows, ibv_alloc_mw(pd, IBV_MW_TYPE_1));
  ibv_mw_bind bind{};
  bind.wr_id = 7;
  bind.bind_info = {.mr = remote.mr,
                    .addr = remote.address(),
                    .length = 64,
                    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  const std::uint32_t old_key = mw->rkey;
  ASSERT_EQ(ibv_bind_mw(far, mw, &bind), 0);
  EXPECT_NE(mw->rkey, old_key);
  ibv_wc wc = collect_one(far_sends);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
  ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE, local.sge(), remote.address(), mw->rkey), 0);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
  // Type 2: bound by a request, on this queue pair only, and gone once invalidated.
  ibv_mw* second = keep(windows, ibv_alloc_mw(pd, IBV_MW_TYPE_2));
  ibv_send_wr wr{};
  wr.wr_id = 8;
  wr.opcode = IBV_WR_BIND_MW;
  wr.bind_mw.mw = second;
  wr.bind_mw.rkey = ibv_inc_rkey(second->rkey);
  wr.bind_mw.bind_info = bind.bind_info;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(far, &wr, &bad), 0);
  EXPECT_EQ(collect_one(far_sends).status, IBV_WC_SUCCESS);
  second->rkey = wr.bind_mw.rkey;
  ASSERT_EQ(rdma(near, 2, IBV_WR_RDMA_WRITE, local.sge(), remote.address(), second->rkey), 0);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
  ibv_send_wr invalidate{};
  invalidate.wr_id = 9;
  invalidate.opcode = IBV_WR_LOCAL_INV;
  invalidate.invalidate_rkey = second->rkey;
  ASSERT_EQ(ibv_post_send(far, &invalidate, &bad), 0);
  wc = collect_one(far_sends);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_LOCAL_INV);
  ASSERT_EQ(rdma(near, 3, IBV_WR_RDMA_WRITE, local.sge(), remote.address(), second->rkey), 0);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(VerbsOperations, ExtendedQueuesAndBuilders) {
  ibv_cq_init_attr_ex cq_attributes{};
  cq_attributes.cqe = 32;
  cq_attributes.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM;
  ibv_cq_ex* cq = ibv_create_cq_ex(context, &cq_attributes);
  ASSERT_NE(cq, nullptr);
  cqs.push_back(ibv_cq_ex_to_cq(cq));
  ibv_qp_init_attr_ex init{};
  init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
  init.cap = {.max_send_wr = 16,
              .max_recv_wr = 16,
              .max_send_sge = 2,
              .max_recv_sge = 2,
              .max_inline_data = 64};
  init.qp_type = IBV_QPT_RC;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = pd;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE;
  ibv_qp* qp = keep(qps, ibv_create_qp_ex(context, &init));
  ASSERT_NE(qp, nullptr);
  ibv_qp_ex* builder = ibv_qp_to_qp_ex(qp);
  ASSERT_NE(builder, nullptr);
  far_sends = make_cq();
  far = make_qp({.send_cq = far_sends});
  EXPECT_EQ(ibv_qp_to_qp_ex(far), nullptr);
  connect(qp, far);
  Buffer& local = make_buffer(64);
  Buffer& remote = make_buffer(64);
  std::ranges::fill(remote.octets, std::uint8_t{0});
  ASSERT_EQ(receive(far, 50, make_buffer(64).sge()), 0);
  ibv_wr_start(builder);
  builder->wr_id = 1;
  builder->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(builder, remote.mr->rkey, remote.address());
  ibv_wr_set_sge(builder, local.mr->lkey, local.address(), 64);
  builder->wr_id = 2;
  ibv_wr_send_imm(builder, 99);
  std::uint32_t word = 5;
  ibv_wr_set_inline_data(builder, &word, sizeof word);
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  EXPECT_EQ(collect_one(far_sends).imm_data, 99U);
  EXPECT_EQ(remote.octets, local.octets);
  ibv_poll_cq_attr none{};
  for (std::uint64_t id = 1; id <= 2; ++id) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    int result = 0;
    while ((result = ibv_start_poll(cq, &none)) == ENOENT) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
    }
    ASSERT_EQ(result, 0);
    EXPECT_EQ(cq->wr_id, id);
    EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_wc_read_qp_num(cq), qp->qp_num);
    ibv_end_poll(cq);
  }
  // Aborted requests were never posted.
  ibv_wr_start(builder);
  ibv_wr_send_imm(builder, 1);
  ibv_wr_abort(builder);
  EXPECT_EQ(ibv_start_poll(cq, &none), ENOENT);
}

TEST_F(VerbsOperations, CompletionsTellWhenTheyWereMade) {
  ibv_cq_init_attr_ex cq_attributes{};
  cq_attributes.cqe = 32;
  cq_attributes.channel = make_channel();
  cq_attributes.wc_flags =
      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  ibv_cq_ex* cq = ibv_create_cq_ex(context, &cq_attributes);
  ASSERT_NE(cq, nullptr);
  cqs.push_back(ibv_cq_ex_to_cq(cq));
  near = make_qp({.send_cq = ibv_cq_ex_to_cq(cq)});
  far = make_qp({.send_cq = make_cq()});
  connect(near, far);
  Buffer& buffer = make_buffer(64);
  const auto clock = [&] {
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    EXPECT_EQ(ibv_query_rt_values_ex(context, &values), 0);
    return static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
  };
  const auto wall_clock = [] {
    return static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
  };
  std::uint64_t earliest = clock();
  const std::uint64_t earliest_on_the_wall = wall_clock();
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ASSERT_EQ(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0), 0);
    ASSERT_EQ(receive(far, id, buffer.sge()), 0);
    ASSERT_EQ(send(near, id, buffer.sge()), 0);
    ibv_cq* which = nullptr;
    void* tag = nullptr;
    ASSERT_EQ(ibv_get_cq_event(cq_attributes.channel, &which, &tag), 0);
    ibv_ack_cq_events(which, 1);
  }
  // The completions are there and wait; how long is not part of their time.
  const std::uint64_t latest = clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ibv_poll_cq_attr none{};
    ASSERT_EQ(ibv_start_poll(cq, &none), 0);
    EXPECT_EQ(cq->wr_id, id);
    const std::uint64_t at = ibv_wc_read_completion_ts(cq);
    EXPECT_GE(at, earliest);
    EXPECT_LE(at, latest);
    earliest = at;
    const std::uint64_t on_the_wall = ibv_wc_read_completion_wallclock_ns(cq);
    EXPECT_GE(on_the_wall + 1'000'000'000, earliest_on_the_wall);  // clocks may be set
    EXPECT_LE(on_the_wall, wall_clock() + 1'000'000'000);
    ibv_end_poll(cq);
  }
}

// ---- Shared receives ----

TEST_F(VerbsOperations, ASharedQueueServesAllAndTellsWhenItRunsLow) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = keep(srqs, ibv_create_srq(pd, &init));
  join({}, {}, {}, {.srq = srq});
  Buffer& buffer = make_buffer(64);
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(receive(srq, 50 + i, buffer.sge()), 0);
  ibv_srq_attr limit{.max_wr = 0, .max_sge = 0, .srq_limit = 3};
  ASSERT_EQ(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(send(near, 1, buffer.sge()), 0);
  EXPECT_EQ(collect_one(far_receives).wr_id, 50U);
  EXPECT_TRUE(has_no_event());
  ASSERT_EQ(send(near, 2, buffer.sge()), 0);
  EXPECT_EQ(collect_one(far_receives).wr_id, 51U);
  const auto event = next_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event->element.srq, srq);
  ibv_srq_attr now{};
  ASSERT_EQ(ibv_query_srq(srq, &now), 0);
  EXPECT_EQ(now.srq_limit, 0U);  // once per arming
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(far, &attr, IBV_QP_STATE), 0);
  expect_event(IBV_EVENT_QP_LAST_WQE_REACHED, far);
  EXPECT_TRUE(is_empty(far_receives));  // the others' receives are not flushed
}

TEST_F(VerbsOperations, ACompletionQueueOfASharedReceiverDoesNotGrow) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = keep(srqs, ibv_create_srq(pd, &init));
  ibv_cq* arrivals = make_cq(32);
  far = make_qp({.send_cq = make_cq(), .receive_cq = arrivals, .srq = srq});
  EXPECT_EQ(ibv_resize_cq(arrivals, 64), EOPNOTSUPP);
  EXPECT_EQ(arrivals->cqe, 32);
  EXPECT_EQ(ibv_resize_cq(arrivals, 16), 0);
  forget(qps, far);
  ASSERT_EQ(ibv_destroy_qp(far), 0);
  EXPECT_EQ(ibv_resize_cq(arrivals, 64), 0);
}

// ---- Events ----

TEST_F(VerbsEvents, DescriptorsThatMustNotBlockDoNot) {
  ibv_comp_channel* channel = make_channel();
  ::fcntl(channel->fd, F_SETFL, O_NONBLOCK);
  ibv_cq* cq = nullptr;
  void* tag = nullptr;
  errno = 0;
  EXPECT_EQ(ibv_get_cq_event(channel, &cq, &tag), -1);
  EXPECT_EQ(errno, EAGAIN);
  ibv_async_event event;
  errno = 0;
  EXPECT_EQ(ibv_get_async_event(context, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

std::atomic<int> signals_seen{0};

/// While it lives, this thread gets one signal after the other, with a handler of these flags.
class SignalRain {
 public:
  explicit SignalRain(int flags) {
    signals_seen = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { ++signals_seen; };
    action.sa_flags = flags;
    EXPECT_EQ(::sigaction(SIGUSR1, &action, &before_), 0);
    const pthread_t target = ::pthread_self();
    rain_ = std::thread([this, target] {
      while (!is_over_.load()) {
        ::pthread_kill(target, SIGUSR1);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  SignalRain(const SignalRain&) = delete;
  SignalRain& operator=(const SignalRain&) = delete;
  ~SignalRain() {
    is_over_ = true;
    rain_.join();
    ::sigaction(SIGUSR1, &before_, nullptr);
  }

 private:
  struct sigaction before_ {};
  std::atomic<bool> is_over_{false};
  std::thread rain_;
};

TEST_F(VerbsEvents, ASignalEndsTheWaitAsItEndsARead) {
  ibv_comp_channel* channel = make_channel();
  ::fcntl(context->async_fd, F_SETFL, 0);
  const SignalRain rain(0);
  ibv_cq* cq = nullptr;
  void* tag = nullptr;
  errno = 0;
  EXPECT_EQ(ibv_get_cq_event(channel, &cq, &tag), -1);
  EXPECT_EQ(errno, EINTR);
  ibv_async_event event;
  errno = 0;
  EXPECT_EQ(ibv_get_async_event(context, &event), -1);
  EXPECT_EQ(errno, EINTR);
  EXPECT_GT(signals_seen.load(), 0);
}

TEST_F(VerbsEvents, SignalsThatRestartCallsLeaveTheWaitAlone) {
  ibv_comp_channel* channel = make_channel();
  ibv_cq* cq = make_cq(16, channel);
  near = make_qp({.send_cq = cq});
  far = make_qp({.send_cq = make_cq()});
  connect(near, far);
  Buffer& buffer = make_buffer(64);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  const SignalRain rain(SA_RESTART);
  std::thread late([&] {
    while (signals_seen.load() < 20) std::this_thread::yield();
    EXPECT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE, buffer.sge(), buffer.address(), buffer.mr->rkey), 0);
  });
  ibv_cq* which = nullptr;
  void* tag = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel, &which, &tag), 0) << std::strerror(errno);
  late.join();
  EXPECT_EQ(which, cq);
  ibv_ack_cq_events(cq, 1);
}

TEST_F(VerbsEvents, SolicitedArmingWaitsForASolicitedMessage) {
  ibv_comp_channel* channel = make_channel();
  ::fcntl(channel->fd, F_SETFL, O_NONBLOCK);
  near_sends = make_cq();
  far_receives = make_cq(16, channel);
  near = make_qp({.send_cq = near_sends});
  far = make_qp({.send_cq = near_sends, .receive_cq = far_receives});
  connect(near, far);
  Buffer& buffer = make_buffer(64);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(receive(far, i, buffer.sge()), 0);
  const int poller = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event wanted{.events = EPOLLIN, .data = {.fd = channel->fd}};
  ASSERT_EQ(::epoll_ctl(poller, EPOLL_CTL_ADD, channel->fd, &wanted), 0);
  epoll_event found{};
  ASSERT_EQ(ibv_req_notify_cq(far_receives, 1), 0);
  ASSERT_EQ(send(near, 1, buffer.sge()), 0);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
  EXPECT_EQ(::epoll_wait(poller, &found, 1, 20), 0);
  ASSERT_EQ(send(near, 2, buffer.sge(), IBV_SEND_SOLICITED), 0);
  EXPECT_EQ(::epoll_wait(poller, &found, 1, 30'000), 1);
  ibv_cq* which = nullptr;
  void* tag = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &which, &tag), 0);
  EXPECT_EQ(which, far_receives);
  ibv_ack_cq_events(which, 1);
  ASSERT_EQ(send(near, 3, buffer.sge(), IBV_SEND_SOLICITED), 0);  // not armed again
  EXPECT_EQ(collect(near_sends, 2)[1].status, IBV_WC_SUCCESS);
  EXPECT_EQ(::epoll_wait(poller, &found, 1, 20), 0);
  ::close(poller);
  EXPECT_EQ(collect(far_receives, 3)[2].wr_id, 2U);
}

TEST_F(VerbsEvents, DestroyingWaitsForAcknowledgements) {
  ibv_comp_channel* channel = make_channel();
  ibv_cq* cq = ibv_create_cq(context, 16, nullptr, channel, 0);
  ibv_cq* other = make_cq();
  near = make_qp({.send_cq = cq, .receive_cq = other});
  far = make_qp({.send_cq = other});
  connect(near, far);
  Buffer& buffer = make_buffer(64);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE, buffer.sge(), buffer.address(), buffer.mr->rkey), 0);
  ibv_cq* which = nullptr;
  void* tag = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &which, &tag), 0);
  forget(qps, near);
  ASSERT_EQ(ibv_destroy_qp(near), 0);
  std::atomic<bool> acknowledged{false};
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    acknowledged = true;
    ibv_ack_cq_events(cq, 1);
  });
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_TRUE(acknowledged.load());
  late.join();
}

TEST_F(VerbsEvents, AThreadThatWaitsForEventsDoesNotHoldUpDestruction) {
  ::fcntl(context->async_fd, F_SETFL, 0);
  std::atomic<int> seen{0};
  std::thread reader([&] {
    for (;;) {
      ibv_async_event event{};
      if (ibv_get_async_event(context, &event) != 0) return;
      ++seen;
      const bool is_last = event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED;
      ibv_ack_async_event(&event);
      if (is_last) return;
    }
  });
  for (int round = 0; round < 50; ++round) {
    ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    near = make_qp({.send_cq = cq});
    far = make_qp({.send_cq = cq});
    connect(near, far, {}, {.access = 0});
    Buffer& buffer = make_buffer(8);
    ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE, buffer.sge(), buffer.address(), buffer.mr->rkey), 0);
    EXPECT_EQ(collect_one(cq).status, IBV_WC_REM_INV_REQ_ERR);  // and an event about `far`
    for (ibv_qp* qp : {far, near}) {
      forget(qps, qp);
      ASSERT_EQ(ibv_destroy_qp(qp), 0);
    }
    ASSERT_EQ(ibv_destroy_cq(cq), 0);
  }
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = keep(srqs, ibv_create_srq(pd, &init));
  ibv_srq_attr limit{.max_wr = 0, .max_sge = 0, .srq_limit = 3};
  ASSERT_EQ(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
  Buffer& buffer = make_buffer(8);
  join({}, {}, {}, {.srq = srq});
  ASSERT_EQ(receive(srq, 1, buffer.sge()), 0);
  ASSERT_EQ(send(near, 1, buffer.sge()), 0);
  reader.join();
  EXPECT_GE(seen.load(), 1);
}

// ---- Idle ----

TEST_F(VerbsEvents, IdleConnectionsCostNoTime) {
  join();
  Buffer& buffer = make_buffer(64);
  ASSERT_EQ(receive(far, 1, buffer.sge()), 0);
  ASSERT_EQ(send(near, 1, buffer.sge()), 0);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // whatever was under way ends
  const auto used = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto of = [](const timeval& t) { return t.tv_sec * 1'000'000 + t.tv_usec; };
    return of(usage.ru_utime) + of(usage.ru_stime);
  };
  const auto before = used();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_LT(used() - before, 5'000);
}

}  // namespace
}  // namespace verbatim::testing
