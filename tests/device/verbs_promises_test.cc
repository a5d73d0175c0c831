// SPDX-License-Identifier: Apache-2.0
// Behaviour that the manual pages and other adapters promise and that programs rely on.
#include <endian.h>

#include "qp_capacity.h"
#include "world.h"

namespace verbatim::testing {
namespace {

class VerbsPromises : public Pair {
 protected:
  static int post_one(ibv_qp* qp, ibv_send_wr& wr) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }
  ibv_send_wr bind_request(ibv_mw* mw, const Buffer& buffer, std::uint32_t rkey) {
    ibv_send_wr wr{};
    wr.wr_id = 8;
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = {.mr = buffer.mr,
                            .addr = buffer.address(),
                            .length = buffer.octets.size(),
                            .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    return wr;
  }
  /// A UD queue pair that sends.
  ibv_qp* make_ud() {
    near_sends = make_cq();
    ibv_qp* qp = make_qp({.type = IBV_QPT_UD, .send_cq = near_sends});
    EXPECT_EQ(to_init(qp), 0);
    EXPECT_EQ(to_rtr(qp, 0), 0);
    EXPECT_EQ(to_rts(qp), 0);
    return qp;
  }
  ibv_ah* make_ah(ibv_pd* domain) {
    ibv_ah_attr address = local_address();
    return keep(ahs, ibv_create_ah(domain, &address));
  }
};

// ---- Windows ----

TEST_F(VerbsPromises, OfTheKeyOfABindOnlyTheLowOctetIsTaken) {
  join();
  Buffer& local = make_buffer(64);
  Buffer& remote = make_buffer(64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ibv_mw* mw = keep(windows, ibv_alloc_mw(pd, IBV_MW_TYPE_2));
  const std::uint32_t index = mw->rkey >> 8;
  for (const std::uint32_t wanted : {0xdead'be00U, 0x42U}) {
    ibv_send_wr wr = bind_request(mw, remote, wanted);
    ASSERT_EQ(post_one(far, wr), 0);
    EXPECT_EQ(mw->rkey, index << 8 | (wanted & 0xff));  // from the post on
    EXPECT_EQ(collect_one(far_sends).status, IBV_WC_SUCCESS);
    ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE, local.sge(), remote.address(), mw->rkey), 0);
    EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
    ibv_send_wr invalidate{};
    invalidate.opcode = IBV_WR_LOCAL_INV;
    invalidate.invalidate_rkey = mw->rkey;
    ASSERT_EQ(post_one(far, invalidate), 0);
    EXPECT_EQ(collect_one(far_sends).status, IBV_WC_SUCCESS);
  }
}

TEST_F(VerbsPromises, AWindowWhoseBindFailedCanBeBoundElsewhere) {
  join();
  Buffer& remote = make_buffer(64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ibv_mw* mw = keep(windows, ibv_alloc_mw(pd, IBV_MW_TYPE_2));
  ibv_send_wr wr = bind_request(mw, remote, 7);
  wr.bind_mw.bind_info.length = 65;
  ASSERT_EQ(post_one(far, wr), 0);
  EXPECT_EQ(collect_one(far_sends).status, IBV_WC_MW_BIND_ERR);
  wr = bind_request(mw, remote, 8);
  ASSERT_EQ(post_one(near, wr), 0);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
}

TEST_F(VerbsPromises, ABuilderBindsLikeAPost) {
  near_sends = make_cq();
  ibv_qp_init_attr_ex init{};
  init.send_cq = init.recv_cq = near_sends;
  init.cap = qp_capacity(4, 4);
  init.qp_type = IBV_QPT_RC;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = pd;
  init.send_ops_flags = IBV_QP_EX_WITH_BIND_MW;
  near = keep(qps, ibv_create_qp_ex(context, &init));
  far_sends = make_cq();
  far = make_qp({.send_cq = far_sends});
  connect(near, far);
  Buffer& remote = make_buffer(64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ibv_mw* mw = keep(windows, ibv_alloc_mw(pd, IBV_MW_TYPE_2));
  const std::uint32_t before = mw->rkey;
  const ibv_mw_bind_info info = bind_request(mw, remote, 0).bind_mw.bind_info;
  ibv_qp_ex* builder = ibv_qp_to_qp_ex(near);
  ibv_wr_start(builder);
  ibv_wr_bind_mw(builder, mw, 0x1234'5678, &info);
  ibv_wr_abort(builder);
  EXPECT_EQ(mw->rkey, before);  // nothing was posted
  ibv_wr_start(builder);
  builder->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_bind_mw(builder, mw, 0x1234'5678, &info);
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  EXPECT_EQ(mw->rkey, (before & ~0xffU) | 0x78U);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
  ASSERT_EQ(rdma(far, 1, IBV_WR_RDMA_WRITE, make_buffer(64).sge(), remote.address(), mw->rkey), 0);
  EXPECT_EQ(collect_one(far_sends).status, IBV_WC_SUCCESS);
}

// ---- Completions ----

TEST_F(VerbsPromises, OnlyDatagramsBringAGlobalRouteHeader) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    join({}, {}, {.type = type}, {.type = type});
    Buffer& local = make_buffer(64);
    Buffer& remote = make_buffer(64);
    ASSERT_EQ(receive(far, 1, remote.sge()), 0);
    ASSERT_EQ(receive(far, 2, remote.sge()), 0);
    ASSERT_EQ(send(near, 1, local.sge()), 0);
    EXPECT_EQ(collect_one(far_receives).wc_flags, 0U);
    ASSERT_EQ(
        rdma(near, 2, IBV_WR_RDMA_WRITE_WITH_IMM, local.sge(), remote.address(), remote.mr->rkey),
        0);
    EXPECT_EQ(collect_one(far_receives).wc_flags, unsigned{IBV_WC_WITH_IMM});
  }
}

TEST_F(VerbsPromises, AMisalignedAtomicIsAnErrorOfTheRequest) {
  join();
  Buffer& local = make_buffer(8);
  Buffer& remote = make_buffer(64);
  const auto before = remote.octets;
  ASSERT_EQ(atomic(near, 1, local.sge(), remote.address() + 1, remote.mr->rkey, 1), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_REM_INV_REQ_ERR, 1, 0);
  EXPECT_EQ(remote.octets, before);
  EXPECT_TRUE(reaches(far, IBV_QPS_ERR));
}

TEST_F(VerbsPromises, AnAtomicOfAnotherLengthFailsWhereItWasPosted) {
  join();
  Buffer& local = make_buffer(9);
  Buffer& remote = make_buffer(64);
  Buffer& landing = make_buffer(64);
  ASSERT_EQ(receive(far, 50, landing.sge()), 0);
  ASSERT_EQ(send(near, 1, local.sge()), 0);  // what comes before is done
  ASSERT_EQ(atomic(near, 2, local.sge(), remote.address(), remote.mr->rkey, 1), 0);
  ASSERT_EQ(send(near, 3, local.sge()), 0);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
  expect_failure_then_flush(near_sends, near, IBV_WC_LOC_LEN_ERR, 2, 1);
  EXPECT_EQ(collect_one(far_receives).status, IBV_WC_SUCCESS);
}

TEST_F(VerbsPromises, OperationsThatAServiceDoesNotHaveFail) {
  Buffer& local = make_buffer(8);
  for (const ibv_wr_opcode opcode :
       {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_BIND_MW}) {
    ibv_qp* qp = make_ud();
    ibv_send_wr wr{};
    wr.wr_id = 5;
    wr.opcode = opcode;
    // The field of the address handle does not contain an address handle here.
    if (opcode == IBV_WR_BIND_MW) {
      wr = bind_request(keep(windows, ibv_alloc_mw(pd, IBV_MW_TYPE_2)), local, 1);
    } else {
      wr.wr.rdma = {.remote_addr = 1, .rkey = 2};
    }
    const std::uint64_t id = wr.wr_id;
    ASSERT_EQ(post(qp, wr, local.sge()), 0) << opcode;
    const ibv_wc wc = collect_one(near_sends);
    EXPECT_EQ(wc.status, IBV_WC_LOC_QP_OP_ERR) << opcode;
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(state_of(qp), IBV_QPS_SQE);
  }
  join({}, {}, {.type = IBV_QPT_UC}, {.type = IBV_QPT_UC});
  ASSERT_EQ(rdma(near, 6, IBV_WR_RDMA_READ, local.sge(), local.address(), local.mr->rkey), 0);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_LOC_QP_OP_ERR);
}

TEST_F(VerbsPromises, ADatagramOfWrongLengthOrAddressFails) {
  const auto outcome = [&](std::uint32_t octets, ibv_pd* of_address) {
    ibv_qp* qp = make_ud();
    ibv_send_wr wr{};
    wr.wr_id = 5;
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud = {.ah = make_ah(of_address), .remote_qpn = qp->qp_num, .remote_qkey = kQKey};
    EXPECT_EQ(post(qp, wr, make_buffer(octets).sge()), 0);
    const ibv_wc wc = collect_one(near_sends);
    EXPECT_EQ(wc.wr_id, 5U);
    return wc.status;
  };
  ibv_pd* other = keep(pds, ibv_alloc_pd(context));
  EXPECT_EQ(outcome(1024, pd), IBV_WC_SUCCESS);
  EXPECT_EQ(outcome(65536, pd), IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(outcome(64, other), IBV_WC_LOC_QP_OP_ERR);
}

TEST_F(VerbsPromises, AfterTheErrorCompletionBothQueuePairsAreInError) {
  for (int round = 0; round < 50; ++round) {
    join();
    Buffer& local = make_buffer(64);
    const std::uint32_t wrong_key = local.mr->rkey ^ 0xff;
    ASSERT_EQ(receive(far, 1, local.sge()), 0);
    // Another thread polls: it may look before the post has returned.
    ibv_qp_state found_near = IBV_QPS_RESET;
    ibv_qp_state found_far = IBV_QPS_RESET;
    ibv_wc received{};
    std::thread poller([&] {
      received = collect_one(far_receives);
      found_far = state_of(far);
    });
    std::thread other([&] {
      (void)collect_one(near_sends);
      found_near = state_of(near);
    });
    ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE_WITH_IMM, local.sge(), local.address(), wrong_key),
              0);
    poller.join();
    other.join();
    EXPECT_EQ(received.status, IBV_WC_LOC_ACCESS_ERR);
    EXPECT_EQ(found_near, IBV_QPS_ERR);
    EXPECT_EQ(found_far, IBV_QPS_ERR);
    // No thread polls for the far end here: only a bell tells its process.
    join();
    ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE, local.sge(), local.address(), wrong_key), 0);
    EXPECT_EQ(collect_one(near_sends).status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(state_of(near), IBV_QPS_ERR);
    EXPECT_EQ(state_of(far), IBV_QPS_ERR);
  }
}

TEST_F(VerbsPromises, TimesOfCompletionsNeverStepBack) {
  constexpr std::uint64_t kMessages = 2000;
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = 64;
  wanted.wc_flags =
      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  ibv_cq_ex* cq = ibv_create_cq_ex(context, &wanted);
  ASSERT_NE(cq, nullptr);
  cqs.push_back(ibv_cq_ex_to_cq(cq));
  near_sends = make_cq();
  near = make_qp({.send_cq = near_sends, .depth = 32});
  far = make_qp({.send_cq = make_cq(), .receive_cq = ibv_cq_ex_to_cq(cq), .depth = 32});
  connect(near, far, {.rnr_retry = 7});
  Buffer& buffer = make_buffer(64);
  for (std::uint64_t id = 0; id < 32; ++id) ASSERT_EQ(receive(far, id, buffer.sge()), 0);
  // One thread sends while another polls: completions are collected the moment they come.
  std::thread sender([&] {
    for (std::uint64_t id = 0; id < kMessages; ++id) {
      EXPECT_EQ(send(near, id, buffer.sge()), 0);
      EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
    }
  });
  std::uint64_t last = 0;
  std::uint64_t last_on_the_wall = 0;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (std::uint64_t count = 0; count < kMessages && std::chrono::steady_clock::now() < end;) {
    ibv_poll_cq_attr none{};
    if (ibv_start_poll(cq, &none) != 0) continue;
    ASSERT_EQ(cq->status, IBV_WC_SUCCESS);
    const std::uint64_t at = ibv_wc_read_completion_ts(cq);
    const std::uint64_t on_the_wall = ibv_wc_read_completion_wallclock_ns(cq);
    EXPECT_GT(at, 0U);
    EXPECT_GE(at, last);
    EXPECT_GE(on_the_wall, last_on_the_wall);
    if (count > 0) {
      EXPECT_EQ(on_the_wall - last_on_the_wall, at - last);
    }
    last = at;
    last_on_the_wall = on_the_wall;
    ibv_end_poll(cq);
    ASSERT_EQ(receive(far, count++, buffer.sge()), 0);
  }
  sender.join();
}

// ---- Errors ----

TEST_F(VerbsPromises, WhatReturnsAnErrnoValueSetsErrnoAsWell) {
  const auto expect = [](int wanted, int result, const char* what) {
    EXPECT_EQ(result, wanted) << what;
    EXPECT_EQ(errno, wanted) << what;
    errno = 0;
  };
  errno = 0;
  join();
  Buffer& buffer = make_buffer(64, kAllAccess | IBV_ACCESS_MW_BIND);
  ibv_srq_init_attr srq_init{};
  srq_init.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = keep(srqs, ibv_create_srq(pd, &srq_init));
  near_receives = make_cq();
  ibv_qp* user = make_qp({.send_cq = near_receives, .srq = srq});
  ibv_mw* mw = keep(windows, ibv_alloc_mw(pd, IBV_MW_TYPE_2));
  ibv_mw* by_call = keep(windows, ibv_alloc_mw(pd, IBV_MW_TYPE_1));
  errno = 0;
  expect(EBUSY, ibv_dealloc_pd(pd), "ibv_dealloc_pd");
  expect(EBUSY, ibv_destroy_cq(near_receives), "ibv_destroy_cq");
  expect(EBUSY, ibv_destroy_srq(srq), "ibv_destroy_srq");
  expect(EINVAL, ibv_resize_cq(near_sends, 0), "ibv_resize_cq");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  expect(EINVAL, ibv_modify_qp(user, &attr, IBV_QP_STATE), "ibv_modify_qp");
  ibv_srq_attr srq_attr{.max_wr = 2, .max_sge = 1, .srq_limit = 0};
  expect(EOPNOTSUPP, ibv_modify_srq(srq, &srq_attr, IBV_SRQ_MAX_WR), "ibv_modify_srq");
  ibv_mw_bind bind{};
  expect(EINVAL, ibv_bind_mw(user, by_call, &bind), "ibv_bind_mw");
  ibv_port_attr port{};
  expect(EINVAL, ibv_query_port(context, 2, &port), "ibv_query_port");
  ibv_send_wr wr{};
  wr.num_sge = 1000;
  ibv_send_wr* bad = nullptr;
  expect(EINVAL, ibv_post_send(near, &wr, &bad), "ibv_post_send");
  EXPECT_EQ(bad, &wr);
  ibv_recv_wr receive_wr{};
  receive_wr.num_sge = 1000;
  ibv_recv_wr* bad_receive = nullptr;
  expect(EINVAL, ibv_post_recv(near, &receive_wr, &bad_receive), "ibv_post_recv");
  expect(EINVAL, ibv_post_srq_recv(srq, &receive_wr, &bad_receive), "ibv_post_srq_recv");
  // A full queue, where posting also sends.
  int result = 0;
  for (std::uint64_t id = 0; result == 0 && id < 1000; ++id) {
    errno = 0;
    result = rdma(near, id, IBV_WR_RDMA_WRITE, buffer.sge(), buffer.address(), buffer.mr->rkey);
  }
  expect(ENOMEM, result, "ibv_post_send, full");
  // Registered memory that a window uses.
  ibv_send_wr bind_wr = bind_request(mw, buffer, 1);
  ASSERT_EQ(post_one(far, bind_wr), 0);
  EXPECT_EQ(collect_one(far_sends).status, IBV_WC_SUCCESS);
  errno = 0;
  expect(EBUSY, ibv_dereg_mr(buffer.mr), "ibv_dereg_mr");
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  forget(windows, mw);
  EXPECT_EQ(errno, 0);  // success leaves it alone
}

TEST_F(VerbsPromises, ARegionCannotBecomeEmpty) {
  Buffer& buffer = make_buffer(64);
  errno = 0;
  EXPECT_EQ(
      ibv_rereg_mr(buffer.mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, buffer.octets.data(), 0, 0),
      IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(buffer.mr->length, 64U);
}

// ---- Addresses ----

TEST_F(VerbsPromises, AnAnswerGoesBackAsTheMessageCame) {
  ibv_gid_entry own{};
  for (std::uint32_t i = 0; ibv_query_gid_ex(context, 1, i, &own, 0) == 0; ++i) {
    if (own.gid.raw[10] != 0xff) break;
  }
  ASSERT_NE(own.gid.raw[10], 0xff) << "no IPv6 GID";
  ibv_grh grh{};
  constexpr std::uint32_t kTrafficClass = 0xa5;
  constexpr std::uint32_t kFlowLabel = 0xc'beef;
  grh.version_tclass_flow = htobe32(6U << 28 | kTrafficClass << 20 | kFlowLabel);
  grh.dgid = own.gid;
  grh.sgid.raw[0] = 0xfe;
  grh.sgid.raw[15] = 9;
  ibv_wc wc{};
  wc.wc_flags = IBV_WC_GRH;
  ibv_ah_attr attr{};
  ASSERT_EQ(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr), 0);
  EXPECT_EQ(attr.grh.traffic_class, kTrafficClass);
  EXPECT_EQ(attr.grh.flow_label, kFlowLabel);
  EXPECT_EQ(std::memcmp(attr.grh.dgid.raw, grh.sgid.raw, 16), 0);
  EXPECT_EQ(attr.grh.sgid_index, own.gid_index);
}

// ---- Limits ----

TEST_F(VerbsPromises, AsManyReadsAndAtomicsAreInFlightAsADeviceSays) {
  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(context, &limits), 0);
  EXPECT_GE(limits.max_qp_rd_atom, 128);
  EXPECT_EQ(limits.max_qp_init_rd_atom, limits.max_qp_rd_atom);
  EXPECT_GE(limits.max_res_rd_atom, limits.max_qp_rd_atom);
  const Attributes deep{.read_depth = static_cast<std::uint8_t>(limits.max_qp_rd_atom)};
  near_sends = make_cq(1024);
  near = make_qp({.send_cq = near_sends, .depth = 512});
  far = make_qp({.send_cq = make_cq()});
  connect(near, far, deep, deep);
  Buffer& local = make_buffer(512 * 8);
  Buffer& remote = make_buffer(512 * 8);
  const Buffer before = remote;
  std::ranges::fill(local.octets, std::uint8_t{0});
  std::vector<ibv_send_wr> requests(512);
  std::vector<ibv_sge> pieces(512);
  for (std::uint32_t i = 0; i < 512; ++i) {
    pieces[i] = {.addr = local.address() + 8 * i, .length = 8, .lkey = local.mr->lkey};
    requests[i].wr_id = i;
    requests[i].sg_list = &pieces[i];
    requests[i].num_sge = 1;
    requests[i].opcode = i % 2 == 0 ? IBV_WR_RDMA_READ : IBV_WR_ATOMIC_FETCH_AND_ADD;
    if (i % 2 == 0) {
      requests[i].wr.rdma = {.remote_addr = remote.address() + 8 * i, .rkey = remote.mr->rkey};
    } else {
      requests[i].wr.atomic = {.remote_addr = remote.address() + 8 * i,
                               .compare_add = 1,
                               .swap = 0,
                               .rkey = remote.mr->rkey};
    }
    requests[i].next = i + 1 < 512 ? &requests[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(near, requests.data(), &bad), 0);
  for (const ibv_wc& wc : collect(near_sends, 512)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(local.octets, before.octets);
  for (std::uint32_t i = 0; i < 512; ++i) {
    std::uint64_t was = 0;
    std::uint64_t is = 0;
    std::memcpy(&was, before.octets.data() + 8 * i, 8);
    std::memcpy(&is, remote.octets.data() + 8 * i, 8);
    EXPECT_EQ(is, was + i % 2);
  }
}

TEST_F(VerbsPromises, ADeviceHasAsManySharedReceiveQueuesAsItSays) {
  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(context, &limits), 0);
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  const auto fill_up = [&] {
    while (ibv_srq* srq = ibv_create_srq(pd, &init)) srqs.push_back(srq);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(srqs.size(), static_cast<std::size_t>(limits.max_srq));
  };
  fill_up();
  // Each destroyed one makes room for another.
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(ibv_destroy_srq(srqs.back()), 0);
    srqs.pop_back();
  }
  fill_up();
}

TEST_F(VerbsPromises, AllQueuePairsOfADeviceMayShareOneCompletionQueue) {
  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(context, &limits), 0);
  ibv_cq* cq = make_cq(1 << 20);
  while (qps.size() < static_cast<std::size_t>(limits.max_qp)) {
    if (make_qp({.send_cq = cq, .depth = 1}) == nullptr) break;
  }
  ASSERT_EQ(qps.size(), static_cast<std::size_t>(limits.max_qp));
  // Connections far apart, whose lanes may share something, and both at once.
  Buffer& local = make_buffer(64);
  Buffer& remote = make_buffer(64);
  const std::size_t last = qps.size() - 1;
  const std::vector<std::size_t> ends{0, 16383, 16384, 32768, 49152, 65000, last, 8191};
  for (std::size_t i = 0; i < ends.size(); i += 2) connect(qps[ends[i]], qps[ends[i + 1]]);
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t end : ends) ASSERT_EQ(receive(qps[end], 1000 + end, remote.sge()), 0);
    for (const std::size_t end : ends) ASSERT_EQ(send(qps[end], end, local.sge()), 0);
    std::vector<std::uint64_t> found;
    for (const ibv_wc& wc : collect(cq, 2 * ends.size())) {
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      found.push_back(wc.wr_id);
    }
    std::vector<std::uint64_t> wanted;
    for (const std::size_t end : ends) wanted.insert(wanted.end(), {end, 1000 + end});
    std::ranges::sort(found);
    std::ranges::sort(wanted);
    EXPECT_EQ(found, wanted);
    EXPECT_TRUE(is_empty(cq));
  }
}

}  // namespace
}  // namespace verbatim::testing
