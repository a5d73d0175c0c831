// SPDX-License-Identifier: Apache-2.0
// Connection management between processes of several users at one address.
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "device/forwarded_packet.h"
#include "host/request_box.h"
#include "qp_capacity.h"
#include "rdmacm_world.h"
#include "two_users.h"
#include "wire/crc/icrc.h"
#include "wire/headers/ipv4.h"
#include "wire/headers/packet_builder.h"

namespace verbatim::testing {
namespace {

constexpr const char* kHere = "10.9.0.1";
constexpr const char* kPeer = "10.9.0.77";  // no process is there
constexpr std::uint16_t kPort = 7788;
constexpr std::uint64_t kReady = 1;
constexpr std::uint32_t kPsn = 100;

wire::Gid gid_of(const char* address) {
  wire::Ipv4Address octets;
  EXPECT_EQ(inet_pton(AF_INET, address, octets.octets.data()), 1);
  return wire::gid_of(octets);
}

/// Has the port until the test ends.
void keep_the_port(const UserProcess::Voice& voice) {
  const Channel channel;
  rdma_cm_id* id = channel.create_id();
  sockaddr_in address = ipv4(kHere, 0);
  EXPECT_EQ(rdma_bind_addr(id, as_sockaddr(address)), 0);
  voice.say(kReady);
  (void)voice.hear();
}

int bind_at(rdma_cm_id* id, std::uint16_t port) {
  sockaddr_in address = ipv4(kHere, port);
  return rdma_bind_addr(id, as_sockaddr(address)) == 0 ? 0 : errno;
}

/// Asks the listener at kPort for a connection.
void connect_through(const Channel& channel) {
  rdma_cm_id* id = channel.create_id();
  sockaddr_in to = ipv4(kHere, kPort);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, as_sockaddr(to), 2000), 0);
  (void)channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(rdma_resolve_route(id, 2000), 0);
  (void)channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  create_qp(id);
  rdma_conn_param param{};
  EXPECT_EQ(rdma_connect(id, &param), 0);
}

TEST(TwoUsers, OnlyOneOfThemListensAtAPort) {
  with_several_users([] {
    const auto listen = [](const UserProcess::Voice& voice) {
      const Channel channel;
      rdma_cm_id* id = channel.create_id();
      voice.say(kReady);
      const auto port = static_cast<std::uint16_t>(voice.hear());
      const int error = bind_at(id, port);
      voice.say(static_cast<std::uint64_t>(error));
      if (error == 0) {
        EXPECT_EQ(rdma_listen(id, 1), 0);
      }
      voice.say(kReady);
      (void)voice.hear();
    };
    UserProcess keeper(kOwner, keep_the_port);
    EXPECT_EQ(keeper.hear(), kReady);
    UserProcess owner(kOwner, listen);
    UserProcess borrower(kBorrower, listen);
    UserProcess second_owner(kOwner, listen);
    UserProcess second_borrower(kBorrower, listen);
    for (UserProcess* each : {&owner, &borrower, &second_owner, &second_borrower}) {
      EXPECT_EQ(each->hear(), kReady);
    }
    const auto ask = [](UserProcess& who, std::uint16_t port) {
      who.say(port);
      const std::uint64_t error = who.hear();
      EXPECT_EQ(who.hear(), kReady);
      return error;
    };
    EXPECT_EQ(ask(borrower, kPort), 0U);
    EXPECT_EQ(ask(owner, kPort), static_cast<std::uint64_t>(EADDRINUSE));
    EXPECT_EQ(ask(second_owner, kPort + 1), 0U);
    EXPECT_EQ(ask(second_borrower, kPort + 1), static_cast<std::uint64_t>(EADDRINUSE));
  });
}

TEST(TwoUsers, PortsThatAreGivenDoNotCollide) {
  with_several_users([] {
    constexpr int kListeners = 100;
    const auto listen = [](const UserProcess::Voice& voice) {
      const Channel channel;
      for (int i = 0; i < kListeners; ++i) {
        rdma_cm_id* id = channel.create_id();
        EXPECT_EQ(bind_at(id, 0), 0);
        EXPECT_EQ(rdma_listen(id, 1), 0) << std::strerror(errno);
      }
      voice.say(kReady);
      (void)voice.hear();
    };
    UserProcess owner(kOwner, listen);
    EXPECT_EQ(owner.hear(), kReady);
    std::vector<std::unique_ptr<UserProcess>> borrowers;
    for (const uid_t user : {kBorrower, kThird}) {
      borrowers.push_back(std::make_unique<UserProcess>(user, listen));
      EXPECT_EQ(borrowers.back()->hear(), kReady);
    }
    for (auto& borrower : borrowers) {
      borrower->say(kReady);
      borrower->expect_good_end();
    }
    owner.say(kReady);
    owner.expect_good_end();
  });
}

/// A queue pair that takes WRITEs of a peer that does not exist, and the memory for them.
struct Target {
  explicit Target(ibv_context* context) {
    ibv_pd* domain = ibv_alloc_pd(context);
    region = ibv_reg_mr(domain, memory.data(), memory.size(),
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ibv_cq* queue = ibv_create_cq(context, 4, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = queue;
    init.qp_type = IBV_QPT_RC;
    init.cap = qp_capacity(1, 1);
    qp = ibv_create_qp(domain, &init);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    EXPECT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = 0x123;
    attr.rq_psn = kPsn;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    const wire::Gid peer = gid_of(kPeer);
    std::memcpy(attr.ah_attr.grh.dgid.raw, peer.octets.data(), peer.octets.size());
    attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(index_of_ipv4(context));
    EXPECT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
  }
  static int index_of_ipv4(ibv_context* context) {
    const wire::Gid own = gid_of(kHere);
    for (int index = 0; index < 16; ++index) {
      ibv_gid gid{};
      if (ibv_query_gid(context, 1, index, &gid) != 0) continue;
      if (std::memcmp(gid.raw, own.octets.data(), own.octets.size()) == 0) return index;
    }
    ADD_FAILURE() << "the device has no IPv4 address";
    return 0;
  }

  std::array<char, 4096> memory{};
  ibv_mr* region = nullptr;
  ibv_qp* qp = nullptr;
};

/// A packet as the owner's process would hand it to the box of a listener, with any source.
std::vector<std::byte> as_forwarded(wire::PacketHeaders headers,
                                    std::span<const std::byte> payload) {
  constexpr std::uint16_t kSourcePort = 50000;
  link::Incoming incoming;
  incoming.source = gid_of(kPeer);
  incoming.destination = gid_of(kHere);
  incoming.source_port = kSourcePort;
  incoming.hop_limit = 64;
  const auto seed = wire::IcrcSeed::roce_v2(incoming.source, incoming.destination, kSourcePort);
  std::array<std::byte, 1024> packet{};
  wire::PacketBuilder builder(packet, headers, payload.size(), {.seed = &seed});
  builder.append(payload);
  incoming.octets = std::span(packet).first(builder.finish());
  std::vector<std::byte> message(2048);
  message.resize(device::pack_forwarded(incoming, message));
  return message;
}

void hand_to_box(const std::vector<std::byte>& message) {
  constexpr std::uint64_t kTcpServices = 0x0106'0000;
  const int through = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  EXPECT_TRUE(host::RequestBox::hand_over(
      through, {.address = gid_of(kHere).octets, .id = kTcpServices | kPort}, message));
  ::close(through);
}

TEST(TwoUsers, NothingButRequestsComesThroughARequestBox) {
  with_several_users([] {
    UserProcess keeper(kOwner, keep_the_port);
    EXPECT_EQ(keeper.hear(), kReady);
    UserProcess borrower(kBorrower, [](const UserProcess::Voice& voice) {
      const Channel channel;
      rdma_cm_id* id = channel.create_id();
      EXPECT_EQ(bind_at(id, kPort), 0);
      EXPECT_EQ(rdma_listen(id, 1), 0);
      Target target(id->verbs);
      voice.say(target.qp->qp_num);
      voice.say(target.region->rkey);
      voice.say(reinterpret_cast<std::uintptr_t>(target.memory.data()));
      // Behind the WRITE in the box, or not in the box but at the same socket.
      (void)channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
      EXPECT_EQ(target.memory[0], 0) << "the owner wrote in the name of another host";
      voice.say(kReady);
      (void)voice.hear();
    });
    const std::uint64_t number = borrower.hear();
    const std::uint64_t rkey = borrower.hear();
    const std::uint64_t address = borrower.hear();
    UserProcess owner(kOwner, [&](const UserProcess::Voice& voice) {
      const std::array<std::byte, 8> payload = {std::byte{'x'}};
      wire::PacketHeaders headers;
      headers.bth.opcode = wire::opcode_of(wire::Transport::kRc, wire::Operation::kWriteOnly);
      headers.bth.dest_qp = wire::QpNumber{static_cast<std::uint32_t>(number)};
      headers.bth.psn = wire::Psn(kPsn);
      headers.bth.migrated = true;
      headers.reth = {.address = address,
                      .rkey = wire::MemoryKey{static_cast<std::uint32_t>(rkey)},
                      .dma_octets = payload.size()};
      hand_to_box(as_forwarded(headers, payload));
      voice.say(kReady);
      (void)voice.hear();
    });
    EXPECT_EQ(owner.hear(), kReady);
    UserProcess client(kThird, [](const UserProcess::Voice& voice) {
      const Channel channel;
      connect_through(channel);
      voice.say(kReady);
      (void)voice.hear();
    });
    EXPECT_EQ(client.hear(), kReady);
    EXPECT_EQ(borrower.hear(), kReady);
    borrower.say(kReady);
    borrower.expect_good_end();
  });
}

// The borrower's slot at one address is a slot of the owner's other process at another address.
TEST(TwoUsers, EqualSlotsAtTwoAddressesAreNotMixedUp) {
  with_several_users([] {
    ip("link add f0 type veth peer name f1");
    ip("link set f1 up");
    ip("link set f0 up");
    ip("addr add 10.8.0.1/24 dev f0");
    UserProcess server(kOwner, [](const UserProcess::Voice& voice) {
      const Channel channel;
      rdma_cm_id* listener = channel.create_id();
      EXPECT_EQ(bind_at(listener, kPort), 0);
      EXPECT_EQ(rdma_listen(listener, 1), 0);
      voice.say(kReady);
      const SeenEvent request = channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
      create_qp(request.id);
      rdma_conn_param param{};
      EXPECT_EQ(rdma_accept(request.id, &param), 0);
      (void)channel.expect(RDMA_CM_EVENT_ESTABLISHED);
      voice.say(kReady);
      // The end of the other process in that slot does not end this connection.
      (void)voice.hear();
      EXPECT_FALSE(channel.has_event(1000));
      voice.say(kReady);
      (void)voice.hear();
    });
    EXPECT_EQ(server.hear(), kReady);
    auto elsewhere = std::make_unique<UserProcess>(
        kOwner,
        [](const UserProcess::Voice& voice) {
          const Channel channel;
          rdma_cm_id* id = channel.create_id();
          sockaddr_in address = ipv4("10.8.0.1", 0);
          EXPECT_EQ(rdma_bind_addr(id, as_sockaddr(address)), 0);
          voice.say(kReady);
          (void)voice.hear();
        },
        "f0");
    EXPECT_EQ(elsewhere->hear(), kReady);
    UserProcess client(kBorrower, [](const UserProcess::Voice& voice) {
      const Channel channel;
      connect_through(channel);
      (void)channel.expect(RDMA_CM_EVENT_ESTABLISHED);
      voice.say(kReady);
      (void)voice.hear();
    });
    EXPECT_EQ(client.hear(), kReady);
    EXPECT_EQ(server.hear(), kReady);
    elsewhere.reset();
    server.say(kReady);
    EXPECT_EQ(server.hear(), kReady);
    server.say(kReady);
    server.expect_good_end();
  });
}

}  // namespace
}  // namespace verbatim::testing
