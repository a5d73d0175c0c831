// SPDX-License-Identifier: Apache-2.0
// Every error that a program can provoke on a reliable connection: the completion on both sides,
// the states, the asynchronous event, and the requests behind it (IBA Vol 1, 10.10.2, 9.9).
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <fstream>
#include <string>

#include "world.h"

namespace verbatim::testing {
namespace {

class VerbsErrors : public Pair {};

/// Pages that are registered, then unmapped without telling the adapter.
///
/// They lie where no other thread or allocator maps anything afterwards: mappings without a
/// requested address come from the top of the address space down, programs and their heaps lie
/// below or far above, and the sanitizers keep their own far above as well, on x86-64 and on Arm.
struct Vanished {
  Vanished()
      : address(::mmap(std::bit_cast<void*>(kAddress), kOctets, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)) {
    EXPECT_EQ(std::bit_cast<std::uintptr_t>(address), kAddress) << "the address is in use";
  }
  ~Vanished() { vanish(); }
  Vanished(const Vanished&) = delete;
  Vanished& operator=(const Vanished&) = delete;

  void vanish() const { ::munmap(address, kOctets); }
  static constexpr std::uintptr_t kAddress = 0x4000'0000;
  static constexpr std::size_t kOctets = 64 * 1024;
  void* address;
};

TEST_F(VerbsErrors, ABadLocalKeyFailsTheSend) {
  join();
  Buffer& good = make_buffer(64);
  ibv_sge bad = good.sge();
  bad.lkey ^= 0x5a5a00;
  ASSERT_EQ(receive(far, 50, good.sge()), 0);
  ASSERT_EQ(receive(near, 60, good.sge()), 0);
  ASSERT_EQ(send(near, 1, bad), 0);
  ASSERT_EQ(send(near, 2, good.sge()), 0);
  ASSERT_EQ(send(near, 3, good.sge()), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_LOC_PROT_ERR, 1, 2);
  EXPECT_EQ(collect_one(near_receives).status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(state_of(far), IBV_QPS_RTS);
  EXPECT_TRUE(is_empty(far_receives));
}

TEST_F(VerbsErrors, ASendBeyondItsRegionFails) {
  join();
  Buffer& buffer = make_buffer(64);
  ibv_sge beyond = buffer.sge();
  beyond.length += 1;
  ASSERT_EQ(send(near, 1, beyond), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_LOC_PROT_ERR, 1, 0);
}

TEST_F(VerbsErrors, AReadCannotLandWithoutLocalWrite) {
  join();
  Buffer& source = make_buffer(64);
  Buffer& target = make_buffer(64, IBV_ACCESS_REMOTE_READ);
  ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_READ, target.sge(), source.address(), source.mr->rkey), 0);
  ASSERT_EQ(send(near, 2, source.sge()), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_LOC_PROT_ERR, 1, 1);
}

TEST_F(VerbsErrors, AReadCannotLandWithABadKey) {
  join();
  Buffer& source = make_buffer(64);
  ibv_sge bad = source.sge();
  bad.lkey = 0xdeadbeef;
  ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_READ, bad, source.address(), source.mr->rkey), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_LOC_PROT_ERR, 1, 0);
}

struct RemoteCase {
  const char* name;
  ibv_wr_opcode opcode;
  unsigned access;          // of the region
  std::int64_t offset;      // of the remote address from the region's begin
  std::uint32_t key_error;  // xored into the key
  bool other_domain;
};
void PrintTo(const RemoteCase& c, std::ostream* out) { *out << c.name; }

class RemoteAccess : public Pair, public ::testing::WithParamInterface<RemoteCase> {};

TEST_P(RemoteAccess, IsRefusedOnBothSides) {
  const RemoteCase& c = GetParam();
  ibv_pd* domain = pd;
  if (c.other_domain) domain = keep(pds, ibv_alloc_pd(context));
  join();
  Buffer& local = make_buffer(64);
  Buffer& remote = make_buffer(64, c.access, domain);
  const Buffer before = remote;
  ASSERT_EQ(receive(far, 50, local.sge()), 0);
  ASSERT_EQ(receive(far, 51, local.sge()), 0);
  const auto at = remote.address() + static_cast<std::uint64_t>(c.offset);
  const std::uint32_t rkey = remote.mr->rkey ^ c.key_error;
  if (c.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    ibv_sge eight = local.sge();
    eight.length = 8;
    ASSERT_EQ(atomic(near, 1, eight, at, rkey, 1), 0);
  } else {
    ASSERT_EQ(rdma(near, 1, c.opcode, local.sge(), at, rkey), 0);
  }
  ASSERT_EQ(send(near, 2, local.sge()), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_REM_ACCESS_ERR, 1, 1);
  ASSERT_TRUE(reaches(far, IBV_QPS_ERR));
  const auto flushed = collect(far_receives, 2);
  EXPECT_EQ(flushed[0].wr_id, 50U);
  EXPECT_EQ(flushed[1].wr_id, 51U);
  EXPECT_EQ(flushed[1].status, IBV_WC_WR_FLUSH_ERR);
  if (c.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
    EXPECT_EQ(flushed[0].status, IBV_WC_LOC_ACCESS_ERR);  // the receive it had taken tells it
  } else {
    EXPECT_EQ(flushed[0].status, IBV_WC_WR_FLUSH_ERR);
    expect_event(IBV_EVENT_QP_ACCESS_ERR, far);
  }
  EXPECT_TRUE(has_no_event());
  EXPECT_EQ(remote.octets, before.octets);
}

constexpr unsigned kNoRemoteWrite = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr unsigned kNoRemoteRead = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
INSTANTIATE_TEST_SUITE_P(
    Verbs, RemoteAccess,
    ::testing::Values(
        RemoteCase{"WriteBadKey", IBV_WR_RDMA_WRITE, kAllAccess, 0, 0x100, false},
        RemoteCase{"WriteStaleKey", IBV_WR_RDMA_WRITE, kAllAccess, 0, 0x1, false},
        RemoteCase{"WriteBeyond", IBV_WR_RDMA_WRITE, kAllAccess, 1, 0, false},
        RemoteCase{"WriteBefore", IBV_WR_RDMA_WRITE, kAllAccess, -1, 0, false},
        RemoteCase{"WriteNoRight", IBV_WR_RDMA_WRITE, kNoRemoteWrite, 0, 0, false},
        RemoteCase{"WriteOtherDomain", IBV_WR_RDMA_WRITE, kAllAccess, 0, 0, true},
        RemoteCase{"WriteImmBadKey", IBV_WR_RDMA_WRITE_WITH_IMM, kAllAccess, 0, 0x100, false},
        RemoteCase{"ReadBadKey", IBV_WR_RDMA_READ, kAllAccess, 0, 0x100, false},
        RemoteCase{"ReadBeyond", IBV_WR_RDMA_READ, kAllAccess, 1, 0, false},
        RemoteCase{"ReadNoRight", IBV_WR_RDMA_READ, kNoRemoteRead, 0, 0, false},
        RemoteCase{"ReadOtherDomain", IBV_WR_RDMA_READ, kAllAccess, 0, 0, true},
        RemoteCase{"AtomicBadKey", IBV_WR_ATOMIC_FETCH_AND_ADD, kAllAccess, 0, 0x100, false},
        RemoteCase{"AtomicBeyond", IBV_WR_ATOMIC_FETCH_AND_ADD, kAllAccess, 64, 0, false},
        RemoteCase{"AtomicNoRight", IBV_WR_ATOMIC_FETCH_AND_ADD, kNoRemoteRead, 0, 0, false}),
    [](const auto& made) { return std::string(made.param.name); });

class QpRights : public Pair, public ::testing::WithParamInterface<ibv_wr_opcode> {};

TEST_P(QpRights, AreAskedBeforeTheRegionsRights) {
  join({}, {.access = IBV_ACCESS_LOCAL_WRITE});
  Buffer& local = make_buffer(64);
  Buffer& remote = make_buffer(64);
  ASSERT_EQ(receive(far, 50, local.sge()), 0);
  ibv_sge eight = local.sge();
  eight.length = 8;
  if (GetParam() == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    ASSERT_EQ(atomic(near, 1, eight, remote.address(), remote.mr->rkey, 1), 0);
  } else {
    ASSERT_EQ(rdma(near, 1, GetParam(), eight, remote.address(), remote.mr->rkey), 0);
  }
  ASSERT_EQ(send(near, 2, local.sge()), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_REM_INV_REQ_ERR, 1, 1);
  ASSERT_TRUE(reaches(far, IBV_QPS_ERR));
  EXPECT_EQ(collect_one(far_receives).status, IBV_WC_WR_FLUSH_ERR);
  expect_event(IBV_EVENT_QP_REQ_ERR, far);
}
INSTANTIATE_TEST_SUITE_P(Verbs, QpRights,
                         ::testing::Values(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                           IBV_WR_ATOMIC_FETCH_AND_ADD));

TEST_F(VerbsErrors, APeerThatIsNotReadyEndsTheConnectionAfterItsRetries) {
  join({.rnr_retry = 2});
  Buffer& buffer = make_buffer(64);
  ASSERT_EQ(send(near, 1, buffer.sge()), 0);
  ASSERT_EQ(send(near, 2, buffer.sge()), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_RNR_RETRY_EXC_ERR, 1, 1);
  EXPECT_EQ(state_of(far), IBV_QPS_RTS);
  EXPECT_TRUE(has_no_event());
}

TEST_F(VerbsErrors, APeerThatBecomesReadyInTimeIsServed) {
  join({.rnr_retry = 7});
  Buffer& from = make_buffer(64);
  Buffer& to = make_buffer(64);
  std::ranges::fill(to.octets, std::uint8_t{0});
  ASSERT_EQ(send(near, 1, from.sge()), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(is_empty(near_sends));
  ASSERT_EQ(receive(far, 50, to.sge()), 0);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
  EXPECT_EQ(collect_one(far_receives).status, IBV_WC_SUCCESS);
  EXPECT_EQ(to.octets, from.octets);
}

/// Requests that were to be tried again later do not keep the adapter busy for ever.
TEST_F(VerbsErrors, AConnectionMayEndWhileItWaitsForItsPeer) {
  join({.rnr_retry = 7});
  Buffer& buffer = make_buffer(64);
  ASSERT_EQ(send(near, 1, buffer.sge()), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(near, &attr, IBV_QP_STATE), 0);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_WR_FLUSH_ERR);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // many times what it waits for
  EXPECT_EQ(state_of(near), IBV_QPS_ERR);
  EXPECT_EQ(state_of(far), IBV_QPS_RTS);
}

TEST_F(VerbsErrors, ASendLongerThanTheReceiveFailsBoth) {
  join();
  Buffer& from = make_buffer(5000);  // more than one packet
  Buffer& to = make_buffer(3000);
  ASSERT_EQ(receive(far, 50, to.sge()), 0);
  ASSERT_EQ(receive(far, 51, to.sge()), 0);
  ASSERT_EQ(send(near, 1, from.sge()), 0);
  ASSERT_EQ(send(near, 2, from.sge()), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_REM_INV_REQ_ERR, 1, 1);
  ASSERT_TRUE(reaches(far, IBV_QPS_ERR));
  expect_failure_then_flush(far_receives, far, IBV_WC_LOC_LEN_ERR, 50, 1);
}

TEST_F(VerbsErrors, AReceiveWithABadKeyFailsBoth) {
  join();
  Buffer& from = make_buffer(64);
  ibv_sge bad = from.sge();
  bad.lkey ^= 0x100;
  ASSERT_EQ(receive(far, 50, bad), 0);
  ASSERT_EQ(receive(far, 51, from.sge()), 0);
  ASSERT_EQ(send(near, 1, from.sge()), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_REM_OP_ERR, 1, 0);
  ASSERT_TRUE(reaches(far, IBV_QPS_ERR));
  expect_failure_then_flush(far_receives, far, IBV_WC_LOC_PROT_ERR, 50, 1);
}

TEST_F(VerbsErrors, APeerThatIsGoneIsGivenUp) {
  join({.retry_count = 2});
  Buffer& buffer = make_buffer(64);
  forget(qps, far);
  ASSERT_EQ(ibv_destroy_qp(far), 0);
  ASSERT_EQ(send(near, 1, buffer.sge()), 0);
  ASSERT_EQ(send(near, 2, buffer.sge()), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_RETRY_EXC_ERR, 1, 1);
}

TEST_F(VerbsErrors, APeerThatIsGoneIsGivenUpAlsoIfNoThreadPolls) {
  ibv_comp_channel* channel = make_channel();
  ibv_cq* sends = make_cq(16, channel);
  ibv_cq* others = make_cq();
  near = make_qp({.send_cq = sends, .receive_cq = others});
  far = make_qp({.send_cq = others});
  connect(near, far, {.retry_count = 1});
  forget(qps, far);
  ASSERT_EQ(ibv_destroy_qp(far), 0);
  Buffer& buffer = make_buffer(64);
  ASSERT_EQ(ibv_req_notify_cq(sends, 0), 0);
  ASSERT_EQ(send(near, 1, buffer.sge()), 0);
  pollfd readable{.fd = channel->fd, .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&readable, 1, 30'000), 1);
  ibv_cq* which = nullptr;
  void* tag = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &which, &tag), 0);
  EXPECT_EQ(which, sends);
  ibv_ack_cq_events(which, 1);
  EXPECT_EQ(collect_one(sends).status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(VerbsErrors, UnsignaledRequestsThatFailStillComplete) {
  join({}, {}, {.signal_all = false});
  Buffer& buffer = make_buffer(64);
  ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE, buffer.sge(), buffer.address(), 0xbad), 0);
  ASSERT_EQ(send(near, 2, buffer.sge()), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_REM_ACCESS_ERR, 1, 1);
}

TEST_F(VerbsErrors, WhatIsPostedInErrorIsFlushed) {
  join();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(near, &attr, IBV_QP_STATE), 0);
  Buffer& buffer = make_buffer(64);
  ASSERT_EQ(send(near, 1, buffer.sge()), 0);
  ASSERT_EQ(send(near, 2, buffer.sge()), 0);
  ASSERT_EQ(receive(near, 3, buffer.sge()), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_WR_FLUSH_ERR, 1, 1);
  EXPECT_EQ(collect_one(near_receives).status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(VerbsErrors, AnOverrunCompletionQueueFailsAllItsQueuePairs) {
  ibv_cq* small = make_cq(1);
  const int capacity = small->cqe;
  ibv_cq* others = make_cq();
  const auto depth = static_cast<std::uint32_t>(capacity) + 8;
  near = make_qp({.send_cq = small, .receive_cq = others, .depth = depth});
  far = make_qp({.send_cq = others, .depth = depth});
  connect(near, far);
  Buffer& buffer = make_buffer(64);
  for (std::uint32_t i = 0; i < depth; ++i) {
    if (rdma(near, i, IBV_WR_RDMA_WRITE, buffer.sge(), buffer.address(), buffer.mr->rkey) != 0)
      break;
  }
  bool has_cq_error = false;
  bool has_fatal = false;
  while (!has_cq_error || !has_fatal) {
    const auto event = next_event();
    ASSERT_TRUE(event.has_value());
    if (event->event_type == IBV_EVENT_CQ_ERR) {
      EXPECT_EQ(event->element.cq, small);
      has_cq_error = true;
    } else {
      EXPECT_EQ(event->event_type, IBV_EVENT_QP_FATAL);
      EXPECT_EQ(event->element.qp, near);
      has_fatal = true;
    }
  }
  EXPECT_EQ(state_of(near), IBV_QPS_ERR);
}

// ---- Memory that is registered but unmapped ----

TEST_F(VerbsErrors, AWriteIntoUnmappedMemoryIsAnError) {
  join();
  Vanished pages;
  ibv_mr* mr = keep(mrs, ibv_reg_mr(pd, pages.address, Vanished::kOctets, kAllAccess));
  pages.vanish();
  Buffer& from = make_buffer(4096);
  ASSERT_EQ(receive(far, 50, from.sge()), 0);
  ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE, from.sge(),
                 reinterpret_cast<std::uintptr_t>(pages.address), mr->rkey),
            0);
  const ibv_wc wc = collect_one(near_sends);
  EXPECT_TRUE(wc.status == IBV_WC_REM_OP_ERR || wc.status == IBV_WC_REM_ACCESS_ERR)
      << ibv_wc_status_str(wc.status);
  EXPECT_TRUE(reaches(far, IBV_QPS_ERR));
  EXPECT_EQ(collect_one(far_receives).status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(VerbsErrors, AReadOfUnmappedMemoryIsAnError) {
  join();
  Vanished pages;
  ibv_mr* mr = keep(mrs, ibv_reg_mr(pd, pages.address, Vanished::kOctets, kAllAccess));
  pages.vanish();
  Buffer& to = make_buffer(4096);
  ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_READ, to.sge(),
                 reinterpret_cast<std::uintptr_t>(pages.address), mr->rkey),
            0);
  const ibv_wc wc = collect_one(near_sends);
  EXPECT_TRUE(wc.status == IBV_WC_REM_OP_ERR || wc.status == IBV_WC_REM_ACCESS_ERR)
      << ibv_wc_status_str(wc.status);
  EXPECT_TRUE(reaches(far, IBV_QPS_ERR));
}

TEST_F(VerbsErrors, AnAtomicOnUnmappedMemoryIsAnError) {
  join();
  Vanished pages;
  ibv_mr* mr = keep(mrs, ibv_reg_mr(pd, pages.address, Vanished::kOctets, kAllAccess));
  pages.vanish();
  Buffer& to = make_buffer(8);
  ASSERT_EQ(atomic(near, 1, to.sge(), reinterpret_cast<std::uintptr_t>(pages.address), mr->rkey, 1),
            0);
  EXPECT_NE(collect_one(near_sends).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(reaches(far, IBV_QPS_ERR));
}

TEST_F(VerbsErrors, ASendFromUnmappedMemoryIsAnError) {
  join();
  Vanished pages;
  ibv_mr* mr = keep(mrs, ibv_reg_mr(pd, pages.address, Vanished::kOctets, kAllAccess));
  pages.vanish();
  Buffer& to = make_buffer(4096);
  ASSERT_EQ(receive(far, 50, to.sge()), 0);
  const ibv_sge gone{
      .addr = reinterpret_cast<std::uintptr_t>(pages.address), .length = 3000, .lkey = mr->lkey};
  ASSERT_EQ(send(near, 1, gone), 0);
  ASSERT_EQ(send(near, 2, to.sge()), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_LOC_PROT_ERR, 1, 1);
}

TEST_F(VerbsErrors, OfAListWhatStandsBeforeUnmappedMemoryIsDoneOnce) {
  join();
  Vanished pages;
  ibv_mr* mr = keep(mrs, ibv_reg_mr(pd, pages.address, Vanished::kOctets, kAllAccess));
  pages.vanish();
  Buffer& good = make_buffer(64);
  for (std::uint64_t id = 50; id < 56; ++id) ASSERT_EQ(receive(far, id, good.sge()), 0);
  std::array<ibv_sge, 4> pieces;
  pieces.fill(good.sge());
  pieces[2].addr = reinterpret_cast<std::uintptr_t>(pages.address);
  pieces[2].lkey = mr->lkey;
  std::array<ibv_send_wr, 4> list{};
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i].wr_id = i;
    list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
    list[i].sg_list = &pieces[i];
    list[i].num_sge = 1;
    list[i].opcode = IBV_WR_SEND;
    list[i].send_flags = IBV_SEND_SIGNALED;
  }
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(near, list.data(), &bad), 0);
  EXPECT_EQ(collect_one(near_sends).wr_id, 0U);
  EXPECT_EQ(collect_one(near_sends).wr_id, 1U);
  expect_failure_then_flush(near_sends, near, IBV_WC_LOC_PROT_ERR, 2, 1);
  EXPECT_EQ(collect_one(far_receives).wr_id, 50U);
  EXPECT_EQ(collect_one(far_receives).wr_id, 51U);
  EXPECT_TRUE(is_empty(far_receives));
}

TEST_F(VerbsErrors, AReceiveIntoUnmappedMemoryIsAnError) {
  join();
  Vanished pages;
  ibv_mr* mr = keep(mrs, ibv_reg_mr(pd, pages.address, Vanished::kOctets, kAllAccess));
  pages.vanish();
  Buffer& from = make_buffer(3000);
  const ibv_sge gone{
      .addr = reinterpret_cast<std::uintptr_t>(pages.address), .length = 4096, .lkey = mr->lkey};
  ASSERT_EQ(receive(far, 50, gone), 0);
  ASSERT_EQ(receive(far, 51, from.sge()), 0);
  ASSERT_EQ(send(near, 1, from.sge()), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_REM_OP_ERR, 1, 0);
  ASSERT_TRUE(reaches(far, IBV_QPS_ERR));
  expect_failure_then_flush(far_receives, far, IBV_WC_LOC_PROT_ERR, 50, 1);
}

TEST_F(VerbsErrors, AReadThatLandsInUnmappedMemoryIsAnError) {
  join();
  Vanished pages;
  ibv_mr* mr = keep(mrs, ibv_reg_mr(pd, pages.address, Vanished::kOctets, kAllAccess));
  pages.vanish();
  Buffer& from = make_buffer(3000);
  const ibv_sge gone{
      .addr = reinterpret_cast<std::uintptr_t>(pages.address), .length = 3000, .lkey = mr->lkey};
  ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_READ, gone, from.address(), from.mr->rkey), 0);
  expect_failure_then_flush(near_sends, near, IBV_WC_LOC_PROT_ERR, 1, 0);
}

TEST_F(VerbsErrors, AFaultOnOneConnectionLeavesOthersAlone) {
  join();
  ibv_qp* other_near = make_qp({.send_cq = near_sends});
  ibv_qp* other_far = make_qp({.send_cq = far_sends});
  connect(other_near, other_far);
  Vanished pages;
  ibv_mr* mr = keep(mrs, ibv_reg_mr(pd, pages.address, Vanished::kOctets, kAllAccess));
  pages.vanish();
  Buffer& from = make_buffer(4096);
  Buffer& to = make_buffer(4096);
  std::ranges::fill(to.octets, std::uint8_t{0});
  ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE, from.sge(),
                 reinterpret_cast<std::uintptr_t>(pages.address), mr->rkey),
            0);
  EXPECT_NE(collect_one(near_sends).status, IBV_WC_SUCCESS);
  ASSERT_EQ(rdma(other_near, 2, IBV_WR_RDMA_WRITE, from.sge(), to.address(), to.mr->rkey), 0);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
  EXPECT_EQ(to.octets, from.octets);
}

TEST_F(VerbsErrors, UnmappedMemoryCannotBeRegistered) {
  Vanished pages;
  pages.vanish();
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(pd, pages.address, Vanished::kOctets, kAllAccess), nullptr);
  EXPECT_EQ(errno, EFAULT);
}

TEST_F(VerbsErrors, MemoryThatIsNotWritableCannotBeRegisteredForWriting) {
  Vanished pages;
  constexpr std::size_t kPage = 4096;
  auto* const second = static_cast<std::byte*>(pages.address) + kPage;
  ASSERT_EQ(::mprotect(second, kPage, PROT_READ), 0);
  const auto reg = [&](std::size_t octets, unsigned access) {
    errno = 0;
    return ibv_reg_mr(pd, pages.address, octets, access);
  };
  constexpr std::array<unsigned, 3> kWriting = {IBV_ACCESS_LOCAL_WRITE,
                                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC};
  for (const unsigned access : kWriting) {
    EXPECT_EQ(reg(Vanished::kOctets, access), nullptr) << access;
    EXPECT_EQ(errno, EFAULT) << access;
    EXPECT_EQ(reg(kPage + 1, access), nullptr) << "one octet of it";
    EXPECT_EQ(errno, EFAULT) << access;
  }
  ibv_mr* mr = reg(kPage, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr) << "nothing of it";
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  mr = reg(Vanished::kOctets, IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(mr, nullptr) << "reading is allowed";
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllAccess),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  ASSERT_EQ(::mprotect(second, kPage, PROT_NONE), 0);
  EXPECT_EQ(reg(Vanished::kOctets, IBV_ACCESS_REMOTE_READ), nullptr);
  EXPECT_EQ(errno, EFAULT);
}

/// Whether the kernel tells the adapter of unmappings: it has a thread for them.
bool has_monitor() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name == "verbatim-memory") return true;
  }
  return false;
}

TEST_F(VerbsErrors, ARegionWhoseMemoryIsGoneGrantsNothingWithOtherRights) {
  join();
  Vanished pages;
  ibv_mr* mr = keep(mrs, ibv_reg_mr(pd, pages.address, Vanished::kOctets, kAllAccess));
  if (!has_monitor()) GTEST_SKIP() << "the kernel does not tell of unmappings";
  pages.vanish();
  const Vanished other;  // memory that was never registered
  Buffer& from = make_buffer(64);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllAccess), 0);
  ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE, from.sge(), Vanished::kAddress, mr->rkey), 0);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_REM_ACCESS_ERR);
  const auto* octets = static_cast<const std::byte*>(other.address);
  EXPECT_TRUE(std::all_of(octets, octets + 64, [](std::byte b) { return b == std::byte{0}; }));
}

TEST_F(VerbsErrors, MemoryThatReplacedARegionDoesNotMoveWithTheFirstPeer) {
  Vanished pages;
  static_cast<std::byte*>(pages.address)[0] = std::byte{1};
  (void)keep(mrs, ibv_reg_mr(pd, pages.address, Vanished::kOctets, kAllAccess));
  if (!has_monitor()) GTEST_SKIP() << "the kernel does not tell of unmappings";
  pages.vanish();
  const Vanished other;
  static_cast<std::byte*>(other.address)[0] = std::byte{1};
  join();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with("40000000-")) {
      EXPECT_EQ(line.find("verbatim-regions"), std::string::npos) << line;
    }
  }
}

}  // namespace
}  // namespace verbatim::testing
