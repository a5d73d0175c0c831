// SPDX-License-Identifier: Apache-2.0
// Packets that the peer of a connection cannot have sent do not take its direct path away.
#include <gtest/gtest.h>

#include "stranger.h"
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
  }
}

}  // namespace
}  // namespace verbatim::testing
