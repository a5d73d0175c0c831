// SPDX-License-Identifier: Apache-2.0
// Packets that the peer of a connection has not sent do not take its direct path away, whatever
// they contain; packets of the peer are accepted.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <cstdlib>

#include "stranger.h"
#include "two_ends.h"
#include "world.h"

namespace verbatim::testing {
namespace {

constexpr std::uint32_t kFirstPsn = 0xfffffe;  // World's

class StrangersPacket : public World {
 protected:
  void SetUp() override {
    World::SetUp();
    ASSERT_TRUE(near.is_ready() && elsewhere.is_ready());
    datagrams = make_cq();
    letter_box = make_qp({.type = IBV_QPT_UD, .send_cq = datagrams});
    ASSERT_EQ(to_init(letter_box), 0);
    ASSERT_EQ(to_rtr(letter_box, 0), 0);
  }

  wire::PacketHeaders headers_for(const ibv_qp* qp, wire::Transport transport, std::uint32_t psn) {
    wire::PacketHeaders headers = near.some_headers(transport, qp->qp_num, psn);
    headers.bth.opcode = opcode_of(transport, wire::Operation::kSendOnly);
    headers.deth.qkey = wire::QKey{kQKey};
    return headers;
  }
  /// A packet as the peer could send it first, with its address and the right numbers and checksum.
  void knock_as_the_peer(const ibv_qp* qp, wire::Transport transport) {
    for (const std::uint32_t ahead : {0U, 1U, 100U}) {
      near.send(near.make(headers_for(qp, transport, (kFirstPsn + ahead) & 0xffffff), 8));
    }
  }
  /// All that was sent before has been handled when this returns.
  void await_all() {
    Buffer& letter = make_buffer(64);
    ASSERT_EQ(receive(letter_box, 1, letter.sge()), 0);
    near.send(near.make(headers_for(letter_box, wire::Transport::kUd, 0), 8));
    EXPECT_EQ(collect_one(datagrams).status, IBV_WC_SUCCESS);
  }

  Stranger near;
  Stranger elsewhere{INADDR_LOOPBACK + 1, 2};
  ibv_cq* datagrams = nullptr;
  ibv_qp* letter_box = nullptr;
};

TEST_F(StrangersPacket, LeavesAConnectionItsDirectPath) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    const auto transport = type == IBV_QPT_RC ? wire::Transport::kRc : wire::Transport::kUc;
    ibv_cq* cq = make_cq();
    ibv_qp* one = make_qp({.type = type, .send_cq = cq});
    ibv_qp* other = make_qp({.type = type, .send_cq = cq});
    connect(one, other);
    elsewhere.send(elsewhere.make(headers_for(other, transport, kFirstPsn), 8));
    near.send(near.make(headers_for(other, transport, kFirstPsn - 1), 8));
    if (type == IBV_QPT_RC) {
      near.send(near.make(headers_for(other, transport, kFirstPsn + 0x100000), 8));
    }
    auto headers = headers_for(other, transport, kFirstPsn);
    headers.bth.pkey = wire::PKey{0x8001};
    near.send(near.make(headers, 8));
    Packet spoilt = near.make(headers_for(other, transport, kFirstPsn), 8);
    spoilt.back() ^= std::byte{1};
    near.send(spoilt);
    knock_as_the_peer(other, transport);
    knock_as_the_peer(one, transport);
    await_all();

    Buffer& from = make_buffer(64);
    Buffer& to = make_buffer(64);
    std::ranges::fill(to.octets, std::uint8_t{0});
    ibv_send_wr write{};
    write.opcode = IBV_WR_RDMA_WRITE;
    write.wr.rdma = {.remote_addr = to.address(), .rkey = to.mr->rkey};
    ASSERT_EQ(post(one, write, from.sge()), 0);
    EXPECT_EQ(collect_one(cq).status, IBV_WC_SUCCESS) << "it must go directly, or not at all";
    EXPECT_EQ(to.octets, from.octets);
    knock_as_the_peer(other, transport);
    await_all();
    ASSERT_EQ(post(one, write, from.sge()), 0);
    EXPECT_EQ(collect_one(cq).status, IBV_WC_SUCCESS);
  }
}

TEST_F(StrangersPacket, IsNotTakenForARequest) {
  ibv_cq* cq = make_cq();
  ibv_qp* one = make_qp({.send_cq = cq});
  ibv_qp* other = make_qp({.send_cq = cq});
  connect(one, other);
  Buffer& into = make_buffer(64);
  ASSERT_EQ(receive(other, 7, into.sge()), 0);
  knock_as_the_peer(other, wire::Transport::kRc);
  await_all();
  EXPECT_TRUE(is_empty(cq)) << "the receive was filled by a process that is not the peer";
}

/// The same between two processes, one of which is a child.
class StrangersPacketToTwo : public StrangersPacket {
 protected:
  void SetUp() override {
    notes = share_with_children<std::array<EndNotes, 2>>();
    ASSERT_NE(notes, nullptr);
    child = ::fork();
    if (child == 0) ::_exit(be_requester(&(*notes)[0], &(*notes)[1]));
    StrangersPacket::SetUp();
  }

  /// Connects, and writes when the test says so.
  static int be_requester(EndNotes* own, const EndNotes* theirs) {
    End end;
    if (!end.open() || !end.make_qp(&end.qp)) return 1;
    end.tell(*own, 1);
    if (!await([&] { return theirs->ready >= 1; })) return 2;
    if (!end.connect(end.qp, theirs->number, {})) return 3;
    end.tell(*own, 2);
    if (!await([&] { return theirs->ready >= 2; })) return 4;
    std::memset(end.buffer, 5, 64);
    return end.run(IBV_WR_RDMA_WRITE, *theirs, 64) == IBV_WC_SUCCESS ? 0 : 5;
  }

  std::array<EndNotes, 2>* notes = nullptr;
  pid_t child = 0;
};

TEST_F(StrangersPacketToTwo, LeavesAConnectionItsDirectPath) {
  ibv_qp* qp = make_qp({.send_cq = make_cq()});
  EndNotes& own = (*notes)[1];
  const EndNotes& theirs = (*notes)[0];
  ASSERT_TRUE(await([&] { return theirs.ready >= 1; }));
  ASSERT_EQ(to_init(qp), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = theirs.number;
  attr.max_dest_rd_atomic = 1;
  attr.ah_attr = local_address();
  ASSERT_EQ(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            0);
  Buffer& to = make_buffer(64);
  own.number = qp->qp_num;
  own.rkey = to.mr->rkey;
  own.address = to.address();
  own.ready = 1;
  ASSERT_TRUE(await([&] { return theirs.ready >= 2; }));
  for (std::uint32_t psn = 0; psn < 4; ++psn) {
    near.send(near.make(headers_for(qp, wire::Transport::kRc, psn), 8));
  }
  await_all();
  own.ready = 2;
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "it must go directly, or not at all";
  EXPECT_EQ(to.octets, std::vector<std::uint8_t>(64, 5));
}

// ---- Packets of the peer ----

/// Where packets are allowed.
class PeersPacket : public World {
 protected:
  void SetUp() override {
    ::setenv("VERBATIM_PATH", "auto", 1);
    World::SetUp();
  }
  void TearDown() override {
    World::TearDown();
    ::setenv("VERBATIM_PATH", "direct", 1);
  }
};

// The ends do not fit, so the direct path is refused; messages of one packet go through all the
// same.
TEST_F(PeersPacket, IsTakenWhenTheEndsDoNotFit) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    ibv_cq* cq = make_cq();
    ibv_qp* one = make_qp({.type = type, .send_cq = cq});
    ibv_qp* other = make_qp({.type = type, .send_cq = cq});
    ASSERT_EQ(to_init(one), 0);
    ASSERT_EQ(to_init(other), 0);
    ASSERT_EQ(to_rtr(one, other->qp_num), 0);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_512;
    attr.dest_qp_num = one->qp_num;
    attr.rq_psn = kFirstPsn;
    attr.max_dest_rd_atomic = 1;
    attr.ah_attr = local_address();
    int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (type == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    ASSERT_EQ(ibv_modify_qp(other, &attr, mask), 0);
    ASSERT_EQ(to_rts(one), 0);
    ASSERT_EQ(to_rts(other), 0);
    Buffer& from = make_buffer(64);
    Buffer& to = make_buffer(64);
    std::ranges::fill(to.octets, std::uint8_t{0});
    ASSERT_EQ(receive(other, 7, to.sge()), 0);
    ASSERT_EQ(send(one, 8, from.sge()), 0);
    for (const ibv_wc& wc : collect(cq, 2)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(to.octets, from.octets);
  }
}

/// One end is stopped while the other connects, which therefore uses packets. The end that was
/// stopped could use the direct path, and learns that the other does not.
TEST(PeersPacketToTwo, IsTakenWhenOnlyTheOtherEndCouldGoDirectly) {
  struct Notes {
    EndNotes ends[2];
    std::atomic<bool> is_stopped{false};
  };
  auto* notes = share_with_children<Notes>();
  ASSERT_NE(notes, nullptr);
  const auto be_target = [&] {
    End end;
    if (!end.open() || !end.make_qp(&end.qp)) return 1;
    end.tell(notes->ends[1], 1);
    if (!await([&] { return notes->ends[0].ready >= 2; })) return 2;
    if (!end.connect(end.qp, notes->ends[0].number, {})) return 3;
    end.tell(notes->ends[1], 2);
    if (!await([&] { return notes->ends[0].ready >= 3; })) return 4;
    return end.buffer[63] == std::byte{5} ? 0 : 5;
  };
  const auto be_requester = [&] {
    End end;
    if (!end.open() || !end.make_qp(&end.qp)) return 1;
    end.tell(notes->ends[0], 1);
    if (!await([&] { return notes->is_stopped.load(); })) return 2;
    if (!end.connect(end.qp, notes->ends[1].number, {})) return 3;
    end.tell(notes->ends[0], 2);
    if (!await([&] { return notes->ends[1].ready >= 2; })) return 4;
    std::memset(end.buffer, 5, 64);
    if (end.run(IBV_WR_RDMA_WRITE, notes->ends[1], 64) != IBV_WC_SUCCESS) return 5;
    end.tell(notes->ends[0], 3);
    return 0;
  };
  ::setenv("VERBATIM_PATH", "auto", 1);
  const pid_t target = ::fork();
  if (target == 0) ::_exit(be_target());
  const pid_t requester = ::fork();
  if (requester == 0) ::_exit(be_requester());
  ::setenv("VERBATIM_PATH", "direct", 1);
  ASSERT_TRUE(await([&] { return notes->ends[0].ready == 1 && notes->ends[1].ready == 1; }));
  int status = 0;
  ASSERT_EQ(::kill(target, SIGSTOP), 0);
  ASSERT_EQ(::waitpid(target, &status, WUNTRACED), target);
  ASSERT_TRUE(WIFSTOPPED(status));
  notes->is_stopped = true;
  ASSERT_TRUE(await([&] { return notes->ends[0].ready >= 2; }));
  ASSERT_EQ(::kill(target, SIGCONT), 0);
  for (const pid_t each : {target, requester}) {
    ASSERT_EQ(::waitpid(each, &status, 0), each);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << (each == target ? "target" : "requester");
  }
}

}  // namespace
}  // namespace verbatim::testing
